# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from vla_edge_ros.bench.studies.footage import Footage, join, read_clips, with_glitches
from vla_edge_ros.errors import SourceError


def clip(name: str, frames: int, value: int, period_ns: int) -> Footage:
    pixels = np.full((frames, 4, 8, 3), value, np.uint8)
    pixels[:, 0, 0, 0] = np.arange(frames)
    return Footage(name, pixels, 7 + np.arange(frames) * period_ns, np.zeros(frames, np.int64))


def test_joined_stream_takes_a_piece_of_each_clip_in_turn_with_every_frame_once_and_time_rising():
    stream = join("all", [clip("a", 5, 100, 10), clip("b", 2, 200, 30)], piece_frames=2)
    assert stream.pixels[:, 1, 1, 1].tolist() == [100, 100, 200, 200, 100, 100, 100]
    assert stream.pixels[:, 0, 0, 0].tolist() == [0, 1, 0, 1, 2, 3, 4]
    assert stream.scenes.tolist() == [0, 0, 1, 1, 2, 2, 3]
    assert np.diff(stream.stamps_ns)[:5].tolist() == [10, 10, 30, 30, 10]
    assert (np.diff(stream.stamps_ns) > 0).all()


def test_glitches_replace_three_single_frames_and_leave_the_original_alone():
    footage = clip("a", 100, 100, 10)
    broken, places = with_glitches(footage)
    assert places.tolist() == [25, 40, 55]
    changed = (broken.pixels != footage.pixels).reshape(100, -1).any(axis=1)
    assert np.flatnonzero(changed).tolist() == [25, 40, 55]
    assert not broken.pixels[40].any()
    assert (broken.pixels[55] == 255).all()


def test_folder_without_video_is_one_clear_error(tmp_path):
    with pytest.raises(SourceError, match="no video"):
        read_clips(tmp_path)
