# SPDX-License-Identifier: Apache-2.0
"""The rows of the live run on the simulated arm; the run itself is the demo's."""

from __future__ import annotations

import dataclasses
import json
import sys

import pytest

pytest.importorskip("rclpy", reason="the program runs a ROS graph")

from vla_edge_ros.bench.graph.tabletop_run import cycle_row, main, task_rows  # noqa: E402
from vla_edge_ros.tabletop.results import EpisodeResult  # noqa: E402
from vla_edge_ros.types import ActionSource, CycleRecord, Outcome  # noqa: E402

pytestmark = pytest.mark.ros


def result(task: str, succeeded: bool, cycles: float) -> EpisodeResult:
    values = {field.name: 0 for field in dataclasses.fields(EpisodeResult)}
    return EpisodeResult(
        **{**values, "task": task, "succeeded": succeeded, "cycles_to_touch": cycles, "actions": 10}
    )


def test_each_task_has_its_share_with_an_interval_and_its_time():
    rows = task_rows(
        [
            result("point", True, 30),
            result("recall", False, 110),
            result("point", True, 40),
            result("point", False, 110),
        ]
    )
    assert [(row["task"], row["episodes"], row["success"]) for row in rows] == [
        ("point", 3, 0.6667),
        ("recall", 1, 0.0),
    ]
    assert rows[0]["success_low"] < 0.6667 < rows[0]["success_high"] and rows[0]["actions"] == 30
    assert 30 <= rows[0]["cycles_to_touch_median"] <= 40  # of those that succeeded
    assert rows[1]["cycles_to_touch_median"] is None
    json.dumps(rows, allow_nan=False)


def record(cycle: int, outcome: Outcome, source: ActionSource, latency_ms: float = 5.0) -> CycleRecord:
    return CycleRecord(cycle, outcome, source=source, latency_ms=latency_ms)


def test_cycles_count_from_the_first_fresh_action_on():
    records = [
        record(1, Outcome.NO_FRAME_YET, ActionSource.NONE),
        record(2, Outcome.ACTED, ActionSource.FRESH, 4.0),
        record(3, Outcome.LATE, ActionSource.REPEAT, 31.9),
        record(4, Outcome.ACTED, ActionSource.FRESH, 40.0),
        record(5, Outcome.REFUSED, ActionSource.REPEAT),
    ]
    row = cycle_row(records, deadline_ms=33.0)
    assert (row["cycles"], row["acted"], row["late"], row["refused"], row["no_frame_yet"]) == (4, 2, 1, 1, 0)
    assert row["late_messages"] == 1 and row["latency_ms_max"] == 40.0
    json.dumps(row, allow_nan=False)
    assert cycle_row(records[:1], 33.0) == {"cycles": 0}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--graphs", "2", "--episodes", "5"], "multiple of 4, tasks by graphs, got 5"),
        (["--graphs", "0"], "at least 1, got 100, 0"),
        (["--episodes", "0"], "at least 1, got 0, 1"),
    ],
)
def test_episodes_that_robots_cannot_share_are_refused(options, told, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["tabletop_run", *options])
    with pytest.raises(SystemExit):
        main()
    assert told in capsys.readouterr().err
