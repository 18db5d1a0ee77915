# SPDX-License-Identifier: Apache-2.0
"""A GIF is whole where its blocks lead to the trailer, whatever its last byte looks like."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from vla_edge_ros.replay.gif_file import TRAILER, is_whole
from vla_edge_ros.replay.open_source import open_source


@pytest.fixture
def animation(tmp_path):
    """Four noisy pictures, so that the data holds every byte; with local colour tables and a comment."""
    rng = np.random.default_rng(3)
    pictures = [Image.fromarray(rng.integers(0, 256, (40, 60, 3), np.uint8)) for _ in range(4)]
    path = tmp_path / "whole.gif"
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=40, comment=b"a;b")
    return path


def test_only_the_whole_file_is_whole(animation, tmp_path):
    data = animation.read_bytes()
    cut = tmp_path / "cut.gif"
    assert is_whole(animation)
    lookalikes = [end for end in range(len(data)) if data[end - 1 : end] == TRAILER]
    assert len(lookalikes) > 3, "expected data bytes that look like a trailer"
    for end in [*lookalikes, *range(0, len(data), 37)]:
        cut.write_bytes(data[:end])
        assert not is_whole(cut), end
    cut.write_bytes(data + b"what somebody appended")
    assert is_whole(cut)


def test_a_file_cut_behind_a_byte_like_a_trailer_plays_whole_frames_only(animation, tmp_path):
    def frames(path):
        return [frame.pixels.tobytes() for frame in open_source(str(path))]

    data, whole = animation.read_bytes(), frames(animation)
    assert len(whole) == 4
    cut = tmp_path / "cut.gif"
    ends = [end for end in range(len(data) // 2, len(data)) if data[end - 1 : end] == TRAILER][:6]
    assert ends
    for end in ends:
        cut.write_bytes(data[:end])
        played = frames(cut)
        assert played == whole[: len(played)] and len(played) < 4
