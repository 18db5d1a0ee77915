# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from vla_edge_ros.replay.open_source import open_source
from vla_edge_ros.replay.synthetic import SyntheticScene


def test_a_picture_is_a_function_of_its_index():
    assert np.array_equal(SyntheticScene().picture(123), SyntheticScene().picture(123))


def test_something_moves_in_every_frame_but_most_of_the_scene_stands_still():
    frames = [frame.pixels.astype(int) for frame in SyntheticScene()]
    changed = [np.any(a != b, axis=-1).mean() for a, b in zip(frames, frames[1:], strict=False)]
    assert np.mean(np.asarray(changed) > 0) > 0.98 and np.max(changed) < 0.1
    spread = np.stack(frames).max(0) - np.stack(frames).min(0)
    assert (spread.max(-1) > 40).mean() > 0.15  # the arm sweeps a visible part of the picture


def test_no_pose_comes_twice_and_the_loop_has_no_seam():
    scene = SyntheticScene()
    frames = [frame.pixels for frame in scene]
    assert len({frame.tobytes() for frame in frames}) > 0.9 * len(frames)
    step = np.abs(frames[0].astype(int) - frames[1]).mean()
    seam = np.abs(frames[-1].astype(int) - frames[0]).mean()
    assert seam <= 2 * step + 1
    assert np.array_equal(scene.picture(0), scene.picture(len(frames)))


@pytest.mark.parametrize("rate_hz", [60.0, 25.0])
def test_media_time_follows_the_rate(rate_hz):
    times = [frame.media_ns for frame in open_source("synthetic", rate_hz=rate_hz)]
    assert len(times) == 600
    assert times[-1] == pytest.approx(599e9 / rate_hz, abs=1)
