# SPDX-License-Identifier: Apache-2.0
"""One answer a cycle, whoever gives it, and zero motion as the last word."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from vla_edge_ros.config import ActionConfig, FallbackConfig
from vla_edge_ros.runtime.cycle_answers import CycleAnswers
from vla_edge_ros.runtime.fallback import FallbackLadder
from vla_edge_ros.runtime.metrics import RunMetrics
from vla_edge_ros.types import Action, ActionSource, CycleRecord, Outcome

ACTION = Action(np.arange(8.0), 5)


def test_watchdog_answer_is_late_and_follows_the_ladder(rig):
    rig.cycle()
    rig.claims.take(2)
    record = rig.answers.expire(2, rig.clock.now_ns)
    assert record.outcome is Outcome.LATE and record.source is ActionSource.REPEAT
    assert record.repeat_streak == 1


def test_a_cycle_that_both_threads_slept_through_is_answered_before_the_next(rig):
    rig.cycle()
    rig.number += 1  # nobody woke for cycle 2
    rig.cycle()
    assert [(r.cycle, r.outcome) for r in rig.sink.records] == [
        (1, Outcome.ACTED),
        (2, Outcome.LATE),
        (3, Outcome.ACTED),
    ]
    assert rig.metrics.snapshot().late_messages == 1


def test_no_burst_for_cycles_further_back(rig):
    rig.cycle()
    rig.number += 10
    rig.cycle()
    assert [r.cycle for r in rig.sink.records] == [1, 11, 12]


def test_finish_is_the_last_message_and_nothing_follows_it(rig):
    rig.cycle()
    rig.answers.finish()
    last = rig.sink.records[-1]
    assert last.source is ActionSource.ZERO and last.outcome is Outcome.STOPPED
    np.testing.assert_array_equal(last.action.values[:7], 0)
    count = len(rig.sink.records)
    assert rig.cycle() is None  # a chunk that was still computing
    assert rig.answers.expire(9, 0) is None
    rig.answers.finish()
    assert len(rig.sink.records) == count


def test_finish_before_any_action_publishes_nothing(rig):
    rig.answers.finish()
    assert rig.sink.records == []


def test_zero_motion_has_the_time_at_which_it_is_made_and_a_repeat_that_of_its_frame(rig):
    fresh = rig.cycle()
    answers = [rig.cycle(camera=False) for _ in range(5)]
    repeats, zeros = answers[:3], answers[3:]
    assert {record.action.stamp_ns for record in repeats} == {fresh.action.stamp_ns}
    assert [record.source for record in zeros] == [ActionSource.ZERO] * 2
    stamps = [record.action.stamp_ns for record in zeros]
    assert fresh.action.stamp_ns < stamps[0] < stamps[1] <= rig.clock.now_ns
    assert rig.cycle().source is ActionSource.FRESH
    rig.clock.work(1000.0)
    rig.answers.finish()
    assert rig.sink.records[-1].action.stamp_ns == rig.clock.now_ns


def test_reopened_run_does_not_repeat_the_action_of_the_run_before(rig):
    rig.cycle()
    rig.answers.finish()
    rig.answers.open()
    assert rig.cycle(camera=False).source is ActionSource.NONE


def test_a_cycle_that_was_overtaken_between_claim_and_lock_is_answered_by_nothing(rig):
    """The watchdog claims cycle 2 and is preempted; meanwhile cycle 3 is answered with a fresh action."""
    rig.cycle()
    assert rig.claims.take(2)
    rig.number += 1
    fresh = rig.cycle()
    assert fresh.source is ActionSource.FRESH
    assert rig.answers.expire(2, rig.clock.now_ns - 33_000_000) is None
    assert [record.cycle for record in rig.sink.records] == [1, 3], "cycle 3's step would be made twice"
    seen = rig.metrics.snapshot()
    assert (seen.overtaken_cycles, seen.unanswered_cycles, seen.cycles) == (1, 1, 2)
    assert rig.cycle(camera=False).repeat_streak == 1, "the repeat that was left out does not count"


def test_a_cycle_stays_overtaken_where_the_later_publish_failed_half_way(rig, monkeypatch):
    rig.cycle()
    assert rig.claims.take(2)
    rig.number += 1

    def sent_then_broken(record):
        rig.sink.records.append(record)
        raise RuntimeError("the status could not be sent")

    with monkeypatch.context() as patched:
        patched.setattr(rig.sink, "publish", sent_then_broken)
        with pytest.raises(RuntimeError):
            rig.cycle()
    assert rig.answers.expire(2, rig.clock.now_ns) is None
    assert [record.cycle for record in rig.sink.records] == [1, 3]


def test_a_new_run_counts_its_cycles_from_the_start(rig):
    for _ in range(5):
        rig.cycle()
    rig.answers.finish()
    rig.answers.open()
    assert rig.answers.expire(1, rig.clock.now_ns).cycle == 1


def test_two_threads_racing_for_cycles_answer_each_exactly_once(rig):
    """The lock and the claim together, under real threads."""
    sink, lock = rig.sink, threading.Lock()

    class LockedClaims:
        next_cycle = 0

        def claim(self, cycle):
            with lock:
                if cycle < self.next_cycle:
                    return False
                self.next_cycle = cycle + 1
                return True

    claims = LockedClaims()
    ladder = FallbackLadder(FallbackConfig(), ActionConfig())
    answers = CycleAnswers(claims, ladder, sink, RunMetrics(33.0), lambda: 0, 33_000_000)
    answers.open()
    barrier = threading.Barrier(2)

    def reason():
        for cycle in range(300):
            barrier.wait()
            answers.act(CycleRecord(cycle, Outcome.ACTED), ACTION, 0)

    def watch():
        for cycle in range(300):
            barrier.wait()
            if claims.claim(cycle):
                answers.expire(cycle, 0)

    threads = [threading.Thread(target=reason), threading.Thread(target=watch)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [record.cycle for record in sink.records] == list(range(300))
