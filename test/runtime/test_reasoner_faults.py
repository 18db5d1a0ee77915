# SPDX-License-Identifier: Apache-2.0
"""Engines that fail, hang or are lost, and sinks that break: the threads live, each period is answered."""

from __future__ import annotations

import threading

import pytest
from sleeping_engine import act, act_then_hang, acted

from vla_edge_ros.errors import EngineError, EngineLostError
from vla_edge_ros.types import ActionSource, Outcome


def test_every_period_of_a_stall_is_answered_once_and_the_late_result_never(run):
    """Fault A20: the reasoning thread hangs in the engine, the watchdog answers period after period."""
    run.start()
    act_then_hang(run)
    run.sink.wait_for(lambda record: record.outcome is Outcome.LATE, 15)
    run.engine.hold.clear()
    run.engine.release.set()
    run.camera()
    run.sink.wait_for(acted, 2)
    run.stop()
    cycles = [record.cycle for record in run.sink.records[:-1]]
    assert cycles == list(range(cycles[0], cycles[0] + len(cycles)))
    late = [record.source for record in run.sink.records if record.outcome is Outcome.LATE]
    assert late[:3] == [ActionSource.REPEAT] * 3 and set(late[3:]) == {ActionSource.ZERO}
    fresh = [record.frame_sequence for record in run.sink.records if record.source is ActionSource.FRESH]
    assert fresh == [1, 3]  # the frame of the stalled chunk, 2, was never acted on


def test_a_watchdog_that_is_preempted_behind_its_claim_repeats_nothing_after_a_later_action(run, monkeypatch):
    """Its cycle is claimed, the next one acted on, and only then does its turn come."""
    claimed, turn, overtaken = threading.Event(), threading.Event(), []
    expire = run._answers.expire

    def preempted(cycle, scheduled_ns):
        if claimed.is_set() or not run.engine.hold.is_set():
            return expire(cycle, scheduled_ns)
        claimed.set()
        assert turn.wait(20)
        overtaken.append(cycle)
        return expire(cycle, scheduled_ns)

    monkeypatch.setattr(run._answers, "expire", preempted)
    run.start()
    act(run)
    run.engine.hold.set()
    run.camera()
    assert claimed.wait(20)
    run.engine.hold.clear()
    run.engine.release.set()
    act(run)
    turn.set()
    run.sink.wait_for(lambda record: bool(overtaken) and record.cycle > overtaken[0] + 2)
    run.stop()
    cycles = [record.cycle for record in run.sink.records[:-1]]
    assert cycles == sorted(cycles) and overtaken[0] not in cycles
    assert run.metrics.snapshot().overtaken_cycles == 1 and run.crashes == []


def test_an_exception_in_the_engine_becomes_a_fallback_and_a_traceback_and_the_loop_lives(run):
    run.start()
    run.camera()
    run.sink.wait_for(acted)
    run.engine.broken = ZeroDivisionError("a bug in the engine")
    run.camera()
    run.sink.wait_for(lambda record: record.outcome is Outcome.ENGINE_ERROR)
    run.engine.broken = None
    run.camera()
    run.sink.wait_for(acted, 2)
    run.stop()
    assert "a bug in the engine" in run.crashes[0] and "Traceback" in run.crashes[0]


def test_times_that_no_estimate_can_be_made_of_are_told_with_the_metrics(run):
    """Fault A18: an engine whose clock is broken must be seen, not only survived."""
    run.start()
    act(run)
    assert run.metrics.snapshot().rejected_samples == 0
    run.engine.prefill_s = float("nan")
    used = max(record.frame_sequence for record in run.sink.records)
    run.camera()
    run.sink.wait_for(lambda record: record.frame_sequence > used)
    run.stop()
    assert run.metrics.snapshot().rejected_samples >= 1


def test_a_crash_whose_report_crashes_ends_no_thread(run, monkeypatch, caplog):
    def refuse(report):
        raise TypeError("a text that the log does not take")

    monkeypatch.setattr(run, "_on_crash", refuse)
    run.start()
    run.engine.broken = ZeroDivisionError("a bug in the engine")
    run.camera()
    run.sink.wait_for(lambda record: record.outcome is Outcome.ENGINE_ERROR)
    run.engine.broken = None
    act(run)
    assert "a bug in the engine" in caplog.text and "a text that the log does not take" in caplog.text


def test_an_exception_that_is_kept_alive_does_not_keep_the_slots_frames(run):
    """The same exception object again and again: its traceback would hold one frame's lease a cycle."""
    run.start()
    for broken in (EngineError("the same each time"), RuntimeError("the same each time")):
        run.engine.broken = broken
        for _ in range(8):  # more than the slot has leases
            failed = run.metrics.snapshot().outcomes.get(Outcome.ENGINE_ERROR, 0)
            run.camera()
            run.sink.wait_for(lambda record: record.outcome is Outcome.ENGINE_ERROR, failed + 1)
    run.engine.broken = None
    before = sum(map(acted, run.sink.records))
    run.camera()
    run.sink.wait_for(acted, before + 1)
    assert not any("lease" in crash for crash in run.crashes)


def test_a_lost_engine_answers_with_zero_motion_and_is_not_started_again(run, caplog):
    run.start()
    run.camera()
    run.sink.wait_for(acted)
    run.engine.broken = EngineLostError("the GPU is lost to this process: restart the process")
    run.camera()
    run.sink.wait_for(lambda record: record.source is ActionSource.ZERO, 10)
    assert run.crashes == []
    assert [entry.levelname for entry in caplog.records if "restart" in entry.getMessage()] == ["ERROR"]
    run.stop()
    with pytest.raises(EngineLostError, match="restart the process"):
        run.start()


def test_a_broken_sink_is_reported_and_does_not_end_the_threads(run, monkeypatch):
    run.start()
    publish, failures = run.sink.publish, iter(range(4))

    def fails_at_first(record):
        if next(failures, None) is not None:
            raise RuntimeError("context is invalid")
        publish(record)

    monkeypatch.setattr(run.sink, "publish", fails_at_first)
    run.camera()
    run.sink.wait_for(lambda record: True, 5)
    assert any("context is invalid" in crash for crash in run.crashes)


def test_stop_while_the_engine_computes_publishes_zero_last_and_refuses_a_restart(run):
    run.start()
    act_then_hang(run)
    run.stop()
    assert run.sink.records[-1].source is ActionSource.ZERO
    count = len(run.sink.records)
    with pytest.raises(EngineError, match="still computes"):
        run.start()
    run.engine.release.set()
    for thread in run._threads:
        thread.join(10)
    assert len(run.sink.records) == count


def test_close_while_the_engine_computes_leaves_its_memory_alone(run):
    run.start()
    run.camera()
    run.engine.hold.set()
    run.camera()
    assert run.engine.holding.wait(10)
    run.close()
    assert run.engine.closed == 0, "the engine was closed under a running forward pass"
    run.engine.release.set()
    for thread in run._threads:
        thread.join(10)
    run.close()
    assert run.engine.closed == 1
