# SPDX-License-Identifier: Apache-2.0
"""Probes: when they come, and what may abort them."""

from __future__ import annotations

import math

import pytest

from vla_edge_ros.runtime.probing import ProbeSchedule, is_usable, probe_must_stop
from vla_edge_ros.types import ChunkTimes


def refusals_before_probe(schedule: ProbeSchedule) -> int:
    count = 0
    while not schedule.due():
        schedule.refused()
        count += 1
    schedule.started()
    return count


def test_probe_gap_doubles_while_probes_fail_up_to_the_limit():
    schedule = ProbeSchedule(after=4, every_max=30)
    gaps = []
    for _ in range(6):
        gaps.append(refusals_before_probe(schedule))
        schedule.report(False)
    assert gaps == [4, 8, 16, 30, 30, 30]


def test_good_probe_is_followed_by_another_at_once():
    schedule = ProbeSchedule(after=4, every_max=30)
    refusals_before_probe(schedule)
    schedule.report(True)
    assert refusals_before_probe(schedule) == 0


def test_good_probe_resets_the_gap():
    schedule = ProbeSchedule(after=4, every_max=30)
    for good in (False, False, True, False):
        refusals_before_probe(schedule)
        schedule.report(good)
    assert refusals_before_probe(schedule) == 8  # the failure after the success starts from 4 again


def test_probe_that_never_reports_counts_as_failed():
    schedule = ProbeSchedule(after=2, every_max=30)
    assert refusals_before_probe(schedule) == 2
    assert refusals_before_probe(schedule) == 4


def test_report_without_a_running_probe_changes_nothing():
    schedule = ProbeSchedule(after=3, every_max=30)
    schedule.report(True)
    schedule.report(False)
    assert refusals_before_probe(schedule) == 3


def test_probe_is_not_aborted_before_it_has_shown_anything():
    assert not probe_must_stop(31.5, 31.4, ChunkTimes(0), steps=7, assumed_step_ms=1e9)
    assert probe_must_stop(31.5, 31.6, ChunkTimes(0), steps=7, assumed_step_ms=0.0)


def test_probe_takes_one_decode_step_before_it_is_judged_by_decode_steps():
    after_prefill = ChunkTimes(0, 0.0, 5.0)
    assert not probe_must_stop(
        31.5, 20.0, after_prefill, steps=7, assumed_step_ms=3.0
    )  # 7 would not fit, 1 does
    after_step = ChunkTimes(0, 0.0, 5.0, (3.0,))
    assert probe_must_stop(31.5, 23.0, after_step, steps=7, assumed_step_ms=3.0)
    assert not probe_must_stop(31.5, 13.0, after_step, steps=7, assumed_step_ms=3.0)


def test_assumption_far_too_high_cannot_abort_every_probe():
    assert not probe_must_stop(31.5, 5.3, ChunkTimes(0, 0.0, 5.0), steps=7, assumed_step_ms=1e9)


@pytest.mark.parametrize("elapsed_ms", [math.nan, math.inf])
def test_probe_stops_where_the_clock_makes_no_sense(elapsed_ms):
    assert probe_must_stop(31.5, elapsed_ms, ChunkTimes(0), steps=7, assumed_step_ms=0.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0, 0.0, 1e300])
def test_bad_sample_is_not_usable(bad):
    """Fault A18."""
    assert not is_usable(ChunkTimes(32, 0.1, bad, (1.0,), completed=True))
    assert not is_usable(ChunkTimes(32, 0.1, 1.0, (1.0, bad), completed=True))
    assert not is_usable(ChunkTimes(32, 0.1, bad, (1.0,)))
    if bad != 0.0:
        assert not is_usable(ChunkTimes(32, bad, 1.0, (1.0,), completed=True))


def test_chunk_aborted_before_its_first_stage_is_no_bad_sample():
    assert is_usable(ChunkTimes(32))
    assert is_usable(ChunkTimes(32, 0.1))
    assert not is_usable(ChunkTimes(32, completed=True))
