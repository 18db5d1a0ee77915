# SPDX-License-Identifier: Apache-2.0
"""Counts against records added by hand, quantiles against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from vla_edge_ros.runtime.metrics import Quantiles, RunMetrics
from vla_edge_ros.types import ActionSource, CycleRecord, Decision, Outcome, Reason


def record(outcome=Outcome.ACTED, source=ActionSource.FRESH, cycle=1, **fields) -> CycleRecord:
    return CycleRecord(cycle, outcome, source=source, **fields)


def test_counts_by_outcome_source_and_reason():
    metrics = RunMetrics(33.0)
    metrics.add(record(latency_ms=10), 11)
    metrics.add(record(latency_ms=30), 33.5)
    refused = Decision(False, Reason.OVER_BUDGET, 0, 40, 31)
    metrics.add(record(Outcome.REFUSED, ActionSource.REPEAT, decision=refused, repeat_streak=2), 1)
    metrics.add(record(Outcome.LATE, ActionSource.ZERO, skipped_cycles=3), 32)
    metrics.add(record(Outcome.NO_FRAME_YET, ActionSource.NONE), 99)
    seen = metrics.snapshot()
    assert seen.cycles == 5 and seen.outcomes[Outcome.ACTED] == 2
    assert seen.refusals == {Reason.OVER_BUDGET: 1}
    assert seen.late_messages == 1  # a cycle that published nothing is not a late message
    assert seen.latest_message_ms == 0.5
    assert seen.deadline_misses == 1 and seen.window_deadline_misses == 1
    assert seen.longest_repeat == 2 and seen.skipped_cycles == 3
    assert (seen.window_repeats, seen.window_zeros) == (1, 1)
    assert seen.latency_ms.max == 30 and seen.last.outcome is Outcome.NO_FRAME_YET


def test_unanswered_cycles_are_the_gaps_in_what_was_answered():
    metrics = RunMetrics(33.0)
    seen = []
    for cycle in (5, 6, 9, 10):
        metrics.add(record(cycle=cycle), 1)
        seen.append(metrics.snapshot().unanswered_cycles)
    assert seen == [0, 0, 2, 2]


def test_window_forgets_and_totals_do_not():
    metrics = RunMetrics(33.0, window=10)
    metrics.add(record(Outcome.LATE, ActionSource.REPEAT, latency_ms=500, repeat_streak=1), 500)
    for _ in range(10):
        metrics.add(record(latency_ms=5), 5)
    seen = metrics.snapshot()
    assert seen.window_deadline_misses == 0 and seen.deadline_misses == 1
    assert seen.latency_ms.max == 5


def test_quantiles_are_samples_of_the_window_and_an_empty_window_is_zero():
    samples = np.random.default_rng(3).exponential(size=999).tolist()
    seen = Quantiles.of(samples)
    assert seen.p99 == np.quantile(samples, 0.99, method="higher") and seen.max == max(samples)
    assert Quantiles.of([]) == Quantiles()


def test_memory_gap_is_the_longest_time_between_a_kept_frame_and_the_next_or_newest_one():
    """Fault A22: a stretch without admission shows while it lasts, and stays on record."""
    metrics, ms = RunMetrics(33.0), 1_000_000
    seen = []
    for outcome, stamp in (
        (Outcome.REFUSED, 1000),  # nothing is kept yet: no gap to speak of
        (Outcome.ACTED, 1033),
        (Outcome.REFUSED, 1066),
        (Outcome.ABORTED, 1133),
        (Outcome.LATE, 0),  # the watchdog's answer knows no frame
        (Outcome.ACTED, 1200),
        (Outcome.NO_NEW_FRAME, 1200),
        (Outcome.ACTED, 900),  # the camera's clock was set back
    ):
        metrics.add(record(outcome, frame_stamp_ns=stamp * ms), 1)
        seen.append(metrics.snapshot().longest_memory_gap_ms)
    assert seen == [0, 0, 33, 100, 100, 167, 167, 167]


def test_a_dropped_result_leaves_no_memory_gap():
    metrics, ms = RunMetrics(33.0), 1_000_000
    metrics.add(record(frame_stamp_ns=1000 * ms), 1)
    metrics.count_dropped_result(record(frame_stamp_ns=1040 * ms))  # its frame is in the cache
    metrics.add(record(frame_stamp_ns=1080 * ms), 1)
    assert metrics.snapshot().longest_memory_gap_ms == 40


def test_sensor_to_action_time_is_of_fresh_actions_only():
    """Fault A4."""
    metrics = RunMetrics(33.0)
    metrics.add(record(), 11, 25.0)
    metrics.add(record(), 11, 35.0)
    metrics.add(record(), 11, 45.0)
    metrics.add(record(Outcome.LATE, ActionSource.REPEAT), 32, 999.0)
    seen = metrics.snapshot().sensor_to_action_ms
    assert (seen.p50, seen.max) == (35.0, 45.0)


@pytest.mark.parametrize(
    ("jump_ns", "expected_ms"),
    [
        (1_800_000_000_000_000_000, 33),  # from simulated to wall time, and back
        (600_000_000_000, 33),  # /clock set forward by ten minutes
        (-600_000_000_000, 33),
        (500_000_000, 533),  # no more than a stall of the camera can be
    ],
)
def test_a_changed_clock_is_no_memory_gap(jump_ns, expected_ms):
    now = [0]
    metrics = RunMetrics(33.0, steady_ns=lambda: now[0])
    stamp_ns = 5_000_000_000
    for step_ns in (0, 33_000_000, 33_000_000 + jump_ns, 33_000_000, 33_000_000 - jump_ns, 33_000_000):
        now[0] += 33_000_000
        stamp_ns += step_ns
        metrics.add(record(frame_stamp_ns=stamp_ns), 1)
    assert metrics.snapshot().longest_memory_gap_ms == (expected_ms if jump_ns > 0 else 33)


def test_a_long_hole_in_the_memory_counts_in_real_and_in_fast_simulated_time():
    for speed in (1, 20):
        now = [0]
        metrics = RunMetrics(33.0, steady_ns=lambda now=now: now[0])
        for seconds in (1, 301):
            now[0] = seconds * 1_000_000_000
            metrics.add(record(frame_stamp_ns=now[0] * speed), 1)
        assert metrics.snapshot().longest_memory_gap_ms == 300_000 * speed


def test_an_age_between_two_clocks_is_no_sample():
    metrics = RunMetrics(33.0)
    metrics.add(record(), 11, 25.0)
    metrics.add(record(), 11, 1.8e12)
    assert metrics.snapshot().sensor_to_action_ms.max == 25.0


def test_outcomes_of_the_window_are_counted_and_the_last_error_is_kept():
    metrics = RunMetrics(33.0, window=3)
    for outcome in (Outcome.LATE, Outcome.ENGINE_ERROR, Outcome.ACTED, Outcome.ACTED):
        metrics.add(record(outcome, error="kernel 7" if outcome is Outcome.ENGINE_ERROR else ""), 1)
    seen = metrics.snapshot()
    assert seen.window_outcomes == {Outcome.ENGINE_ERROR: 1, Outcome.ACTED: 2}
    assert seen.last_error == "kernel 7"


def test_reset_starts_a_new_run():
    metrics = RunMetrics(33.0)
    metrics.add(record(frame_stamp_ns=1), 1, 5.0)
    metrics.add(record(frame_stamp_ns=2), 1, 5.0)
    metrics.reset()
    seen = metrics.snapshot()
    assert seen.cycles == 0 and seen.last is None
    assert seen.longest_memory_gap_ms == seen.sensor_to_action_ms.max == 0
