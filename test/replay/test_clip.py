# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from vla_edge_ros.replay.base import SourceFrame
from vla_edge_ros.replay.clip import Clip
from vla_edge_ros.replay.open_source import open_source


class Counted:
    """``count`` frames; counts how often each is decoded."""

    name = "counted"

    def __init__(self, count: int, height: int = 10, width: int = 20):
        self.count, self.height, self.width = count, height, width
        self.decoded = self.closed = 0

    def __iter__(self):
        for i in range(self.count):
            self.decoded += 1
            yield SourceFrame(np.full((self.height, self.width, 3), i, np.uint8), i * 10)

    def close(self):
        self.closed += 1


def play(clip: Clip, passes: int):
    return [[frame.data[0] for frame in frames] for frames in islice(clip.passes(), passes)]


def test_a_short_looping_clip_is_decoded_once():
    source = Counted(5)
    clip = Clip(source, 0, 0, loop=True)
    assert play(clip, 4) == [[0, 1, 2, 3, 4]] * 4
    assert source.decoded == 5 and source.closed == 1 and clip.is_cached


def test_a_clip_over_the_limit_is_decoded_each_pass_and_not_kept():
    source = Counted(5)
    clip = Clip(source, 0, 0, loop=True, cache_bytes=5 * 600 - 1)
    assert play(clip, 4) == [[0, 1, 2, 3, 4]] * 4
    assert source.decoded == 20 and not clip.is_cached


def test_a_clip_exactly_at_the_limit_is_kept():
    clip = Clip(Counted(5), 0, 0, loop=True, cache_bytes=5 * 600)
    play(clip, 2)
    assert clip.is_cached


def test_the_published_size_is_what_counts_against_the_limit():
    clip = Clip(Counted(5), 2, 2, loop=True, cache_bytes=5 * 12)
    play(clip, 2)
    assert clip.is_cached


def test_without_loop_there_is_one_pass_and_nothing_is_kept():
    clip = Clip(Counted(3), 0, 0, loop=False)
    assert play(clip, 10) == [[0, 1, 2]]
    assert not clip.is_cached


def test_native_size_keeps_every_byte(data_dir):
    source = open_source(str(data_dir / "clips" / "bridge_close_cabinet.mp4"))
    (frames,) = Clip(source, 0, 0, loop=False).passes()
    for ours, frame in zip(frames, source, strict=True):
        assert (ours.height, ours.width, ours.media_ns) == (240, 320, frame.media_ns)
        assert ours.data.typecode == "B" and ours.data.tobytes() == frame.pixels.tobytes()


def area_average(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    """Every output pixel is the mean over its exact area of the picture: an oracle in float64."""

    def weights(size: int, into: int) -> np.ndarray:
        edges = np.arange(into + 1) * size / into
        left, right = np.arange(size), np.arange(size) + 1
        overlap = np.minimum(right, edges[1:, None]) - np.maximum(left, edges[:-1, None])
        return np.clip(overlap, 0, None) * into / size

    rows, columns = weights(pixels.shape[0], height), weights(pixels.shape[1], width)
    return np.einsum("yh,xw,hwc->yxc", rows, columns, pixels.astype(float), optimize=True)


@pytest.mark.parametrize(
    "name", ["bridge_close_cabinet.mp4", "udacity_solidWhiteRight.mp4", "intel_bottle_detection.mp4"]
)
def test_a_smaller_size_is_the_mean_over_each_pixels_area(name, data_dir):
    source = open_source(str(data_dir / "clips" / name))
    frames = next(Clip(source, 128, 64, loop=False).passes())
    for ours, frame in islice(zip(frames, open_source(source.name), strict=True), 0, 30, 10):
        assert (ours.height, ours.width) == (64, 128)
        resized = np.frombuffer(ours.data, np.uint8).reshape(64, 128, 3)
        error = np.abs(resized - area_average(frame.pixels, 64, 128))
        # A picture that is halved first has its cells' edges moved a little, which shows at sharp edges.
        assert error.mean() <= 0.5 and error.max() <= 16.0


@pytest.mark.parametrize(
    ("asked", "published"), [((40, 0), (40, 20)), ((0, 5), (10, 5)), ((1, 0), (1, 1)), ((0, 0), (20, 10))]
)
def test_a_side_that_is_not_given_follows_from_the_sources_shape(asked, published):
    (frames,) = Clip(Counted(1, height=10, width=20), *asked, loop=False).passes()
    (frame,) = frames
    assert (frame.width, frame.height) == published
