# SPDX-License-Identifier: Apache-2.0
"""The animation of two memories: what it shows of each moment, and the file."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from vla_edge_ros.tabletop.animation import CUE, PANEL, Moment, frames_of, phase, write_gif
from vla_edge_ros.tabletop.camera import Camera
from vla_edge_ros.tabletop.episode import Episode
from vla_edge_ros.tabletop.tasks import draw

ROOM = 10


@pytest.fixture(scope="module")
def plan():
    return draw("recall", 1, 30)


@pytest.fixture(scope="module")
def recorded(plan):
    """One memory that keeps the cue, and one that keeps the newest frames; nobody moves the arm."""
    played, camera = Episode(plan, physics=False), Camera()
    cue = next(cycle for cycle in range(plan.go) if plan.cue_cycles(cycle))
    moments = {"keeps": [], "forgets": []}
    while not played.ended:
        cycle, picture = int(played.cycle), camera.picture(played.state)
        newest = tuple(range(max(0, cycle - ROOM + 1), cycle + 1))
        keeping = (cue, *newest[-ROOM + 1 :]) if cycle >= cue + ROOM else newest
        moments["forgets"].append(Moment(cycle, picture, newest))
        moments["keeps"].append(Moment(cycle, picture, keeping))
        played.step(np.zeros(2))
    for name, outcome in (("keeps", "touched the right one"), ("forgets", "touched a wrong one")):
        last = moments[name][-1]
        moments[name].append(Moment(last.cycle + 1, last.picture, last.kept, outcome))
    return moments


def test_the_cue_is_framed_only_where_it_is_kept(plan, recorded):
    last, _ = frames_of(plan, recorded, ROOM)[-1]
    framed = (last == CUE).all(-1)
    assert framed[:, : PANEL + 8].any(), "the left memory keeps the cue"
    assert not framed[:, PANEL + 16 :].any(), "the right one does not"


def test_the_phases_follow_each_other(plan):
    phases = [phase(plan, cycle) for cycle in range(plan.end)]
    assert list(dict.fromkeys(phases)) == ["watching", "waiting", "acting"]
    assert phases.index("acting") == plan.go


def test_the_file_has_every_frame_and_stays_small(plan, recorded, tmp_path):
    frames = frames_of(plan, recorded, ROOM)
    path = tmp_path / "deep" / "two.gif"
    write_gif(path, frames)
    with Image.open(path) as image:
        assert image.n_frames == len(frames)
        assert image.size == (frames[0][0].shape[1], frames[0][0].shape[0])
    assert path.stat().st_size < 2e6
