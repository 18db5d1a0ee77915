# SPDX-License-Identifier: Apache-2.0
"""The study of remembering and cameras: when frames are there, its counts, and what must hold of each row."""

from __future__ import annotations

import json

import pytest

from vla_edge_ros.bench.studies.remembering_cameras import CAMERAS, RULES, Camera, main, play, simulate


def test_the_newest_frame_of_a_cycle_is_that_of_the_cameras_own_clock():
    assert Camera(10.0).newest(7).tolist() == [1, 1, 1, 2, 2, 2, 3]
    assert Camera(60.0).newest(3).tolist() == [1, 3, 5]
    assert Camera(30.0, burst=2).newest(5).tolist() == [2, 2, 4, 4, 6]
    assert Camera(30.0, behind_ms=10.0).newest(4).tolist() == [0, 1, 2, 3]


def test_of_a_camera_of_10_hz_as_many_frames_are_acted_on_as_chance_has_it():
    """A frame has three tries, of which half are refused: 7 in 8. Remembered at once it has one."""
    counts = {rule: play(Camera(10.0), 30_000, rule) for rule in RULES}
    assert counts["never"][0] == pytest.approx(8_750, abs=150)
    assert counts["by the camera"] == counts["never"] and counts["never"][1] == 0
    assert counts["at once"][0] == pytest.approx(5_000, abs=200) and sum(counts["at once"]) == 10_000


def test_no_camera_loses_more_actions_than_by_remembering_at_once_and_none_5_percent():
    for row in simulate(6_000):
        assert row["acted"] >= row["acted_at_once"] and row["acted"] >= 0.95 * row["acted_without"], row


def test_a_camera_that_is_fast_enough_loses_no_frame():
    (row,) = (row for row in simulate(3_000) if row["camera_hz"] == 60.0)
    assert row["acted"] == row["acted_without"] and row["acted"] + row["remembered"] > 2_990


def test_one_command_prints_the_rows_and_writes_them(tmp_path, capsys):
    path = tmp_path / "cameras.json"
    assert main(["--cycles", "40", "--json", str(path)]) == 0
    assert len(json.loads(path.read_text(encoding="utf-8"))["rows"]) == len(CAMERAS)
    assert "camera_hz" in capsys.readouterr().out
