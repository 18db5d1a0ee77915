# SPDX-License-Identifier: Apache-2.0
"""The demo's line and summary say what the counters say."""

import numpy as np

from vla_edge_ros.ros.run_report import FrameCounts, live_line, summary
from vla_edge_ros.runtime.metrics import RunMetrics
from vla_edge_ros.types import Action, ActionSource, CycleRecord, Outcome

ACTION = Action(np.zeros(8), 1)


def add(metrics: RunMetrics, outcome: Outcome, source: ActionSource, count: int, published_ms: float = 5.0):
    for cycle in range(count):
        metrics.add(CycleRecord(cycle, outcome, source, ACTION, latency_ms=5.0), published_ms)


def test_the_live_line_counts_since_the_line_before():
    metrics = RunMetrics(33.0)
    add(metrics, Outcome.ACTED, ActionSource.FRESH, 10)
    before = metrics.snapshot()
    add(metrics, Outcome.ACTED, ActionSource.FRESH, 20)
    add(metrics, Outcome.REFUSED, ActionSource.REPEAT, 3)
    add(metrics, Outcome.LATE, ActionSource.REPEAT, 2, published_ms=34.0)
    metrics.count_remembered(stamp_ns=1)
    metrics.count_remembered(stamp_ns=2)
    line = " ".join(live_line(7, 60, before, metrics.snapshot()).split())
    assert (
        "7 s | camera 60 Hz | admitted 22 refused 3 remembered 2 | deadline misses 2 | repeats 5 | late 2"
        in line
    )
    assert "p50 5.00 p99 5.00 ms" in line


def test_the_summary_accounts_for_every_frame_and_cycle():
    metrics = RunMetrics(33.0)
    add(metrics, Outcome.ACTED, ActionSource.FRESH, 3)
    add(metrics, Outcome.ABORTED, ActionSource.ZERO, 1)
    text = summary(metrics.snapshot(), FrameCounts(written=9, overwritten=5, refused=2), published=12)
    assert "12 images published, 9 received, 2 refused, 5 overwritten unread, 4 used" in text
    assert "4: acted 3, aborted 1" in text
    assert "75.00 % fresh" in text and "1 misses (25.00 %)" in text


def test_the_summary_of_a_run_without_cycles_divides_by_nothing():
    assert "0: none" in summary(RunMetrics(33.0).snapshot(), FrameCounts(), 0)
