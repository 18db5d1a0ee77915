# SPDX-License-Identifier: Apache-2.0
"""The whole graph on real footage and bags, watched by a controller in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from vla_edge_ros.bench.graph.trouble import ALL_KINDS, Timetable
from vla_edge_ros.types import ActionSource, CycleRecord, Outcome

pytestmark = pytest.mark.ros
ROOT = Path(__file__).resolve().parents[3]

SOURCES = (
    "clips/bridge_close_cabinet.mp4",
    "clips/udacity_solidWhiteRight.mp4",
    "bags/rerun_rosbag2_2025_09_10-13_03_56_0.mcap",
    "bags/ait_images",
    "bags/made_bridge_sweep_compressed_mcap",
    "bags/made_bridge_sweep_compressed_sqlite3",
    "bags/made_bridge_cabinet_raw_sqlite3",
)


def live_run(tmp_path: Path, *arguments: str) -> dict:
    result = tmp_path / "run.json"
    command = [sys.executable, "-m", "vla_edge_ros.bench.graph.live_run", *arguments, "--json", str(result)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-4000:]
    return json.loads(result.read_text())["rows"][0]


def assert_every_cycle_answered(row: dict) -> None:
    seen = row["controller"]
    assert seen["cycles"] > 30 and seen["actions"] == seen["cycles"] + 1  # the zero motion at the end
    for fault in ("cycles_twice", "actions_missing", "stamps_back"):
        assert seen[fault] == 0, seen
    # A machine that suspends the whole process for periods leaves them unanswered, and the node says so
    # (it counts from its first answer, the controller from the first action).
    assert seen["cycles_missing"] <= row["unanswered_cycles"]
    assert seen["last_is_zero_motion"]
    used = row["frames_written"] - row["frames_overwritten"]
    assert row["fresh"] <= used <= row["frames_published"]
    walls_ms = [call["wall_ms"] for call in row["slowest_calls"]]
    assert len(walls_ms) == 5 and walls_ms == sorted(walls_ms, reverse=True)
    for process in ("stalls_node", "stalls_machine"):
        assert (row[process]["count"] > 0) == (row[process]["max_ms"] > 0)
    assert {"gpu_mb_start", "gpu_mb_end"} <= row.keys()
    assert (row["late_messages"] > 0) == (row["latest_message_ms_after_deadline"] > 0)


@pytest.mark.parametrize("source", SOURCES)
def test_a_controller_gets_every_cycles_action_from_real_footage(source, data_dir, tmp_path):
    row = live_run(tmp_path, "--minutes", "0.05", "--source", str(data_dir / source))
    assert_every_cycle_answered(row)
    assert row["frames_refused"] == 0


@pytest.mark.slow
def test_every_period_is_answered_in_trouble_of_every_kind(tmp_path):
    """Slow engine, stall, slow and dead camera, garbage, new instructions: each explains its fallbacks."""
    row = live_run(tmp_path, "--minutes", "0.5", "--scenario", "trouble")
    assert_every_cycle_answered(row)
    fallbacks = row["fallbacks"]
    assert fallbacks.get("camera_stopped: stale_frame -> zero", 0) > 0
    assert any(name.startswith("stall_500_ms: late") for name in fallbacks)
    assert any(name.startswith("embedding_not_finite: engine_error") for name in fallbacks)
    assert list(row["errors"]) == ["frame N: its embedding is not finite; expected finite numbers"]
    stalled = [call for call in row["slowest_calls"] if call["call"] == "prefill" and call["wall_ms"] >= 500]
    assert stalled and stalled[0]["device_ms"] >= 500
    assert row["incidents"] and all(incident["at_s"] > 0 for incident in row["incidents"])


def test_watch_counts_from_the_first_action_and_names_the_trouble():
    from vla_edge_ros.bench.graph.live_run import Watch

    watch = Watch(Timetable(ALL_KINDS, lambda: 0.47))
    watch(CycleRecord(1, Outcome.NO_FRAME_YET))
    watch(CycleRecord(2, Outcome.ACTED, source=ActionSource.FRESH, latency_ms=3.0))
    watch(CycleRecord(3, Outcome.STALE_FRAME, source=ActionSource.ZERO, error="frame 12 is bad"))
    watch(CycleRecord(-1, Outcome.STOPPED, source=ActionSource.ZERO))
    assert watch.cycles == 2 and watch.latencies_ms.tolist() == [3.0]
    assert watch.fallbacks == {"camera_stopped: stale_frame -> zero": 1}
    assert watch.errors == {"frame N is bad": 1}


def test_watch_keeps_the_first_late_cycles_only():
    from vla_edge_ros.bench.graph.live_run import MAX_INCIDENTS, Watch

    watch = Watch(Timetable((), lambda: 0.5))
    watch(CycleRecord(1, Outcome.ACTED, source=ActionSource.FRESH))
    for cycle in range(2, 2 * MAX_INCIDENTS):
        watch(CycleRecord(cycle, Outcome.LATE, source=ActionSource.REPEAT, latency_ms=16.0))
    assert [late.cycle for late in watch.late] == list(range(2, 2 + MAX_INCIDENTS))
    assert watch.late[0].latency_ms == 16.0 and watch.late[0].answered_ns > 0


def test_a_node_that_does_not_start_ends_the_run_with_its_reason():
    command = [sys.executable, "-m", "vla_edge_ros.bench.graph.live_run", "-p", "cache.page_slots:=1"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ran.returncode != 0 and "did not start" in ran.stderr
    assert "page_slots must hold one action" in ran.stdout + ran.stderr and "Traceback" not in ran.stderr
