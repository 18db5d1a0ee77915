# SPDX-License-Identifier: Apache-2.0
"""Both threads together on the real clock, slot and watchdog, with a scripted engine that really sleeps."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from vla_edge_ros.config import CacheConfig, PromptConfig, TimingConfig
from vla_edge_ros.engines.base import Decoded, Vision
from vla_edge_ros.errors import ConfigError, EngineError, EngineLostError, InstructionError
from vla_edge_ros.runtime.reasoner import Reasoner
from vla_edge_ros.types import ActionSource, MemoryReport, Outcome, Reason

PIXELS = np.random.default_rng(0).integers(0, 256, (64, 128, 3), dtype=np.uint8)


class SleepingEngine:
    """Takes ``prefill_s`` a chunk; a set ``hold`` event makes the prefill wait for ``release``."""

    name = "sleeping"

    def __init__(self):
        self.prefill_s = 0.0
        self.hold = threading.Event()
        self.release = threading.Event()
        self.holding = threading.Event()
        self.broken: Exception | None = None
        self.prompts = []
        self.chunks = []  # pages seen and draft offered, a chunk
        self.closed = 0

    def load(self):
        if self.broken:
            raise self.broken

    def write_prompt(self, token_ids, pages):
        self.prompts.append(len(token_ids))

    def embed_frame(self, pixels):
        return Vision(np.ones(64, np.float32), 0.01)

    def prefill(self, view, draft=(), suffix=()):
        self.chunks.append((len(view.pages), tuple(draft)))
        if self.hold.is_set():
            self.holding.set()
            self.release.wait(10)
        if self.broken:
            raise self.broken
        return 0.1 + self.prefill_s

    def decode(self, view, count, should_stop):
        return Decoded(tuple(range(300, 300 + count)), (0.01,) * (count - 1), False)

    def memory(self):
        return MemoryReport()

    def close(self):
        self.closed += 1


class Recorder:
    """A sink that remembers and can be waited on."""

    def __init__(self):
        self.records = []
        self.arrived = threading.Condition()

    def publish(self, record):
        with self.arrived:
            self.records.append(record)
            self.arrived.notify_all()

    def wait_for(self, matches, count=1, timeout=20):
        with self.arrived:
            assert self.arrived.wait_for(lambda: sum(map(matches, self.records)) >= count, timeout), (
                f"waited {timeout} s in vain; outcomes {[record.outcome.value for record in self.records]}"
            )


@pytest.fixture
def run(tiny_config, request):
    """A warm reasoner at a 20 ms period on a sleeping engine, with a camera that is called by hand.

    Parametrised indirectly: sections of the configuration to replace.
    """
    timing = TimingConfig(period_ms=20.0, deadline_ms=20.0, max_frame_age_ms=1e4)
    config = replace(tiny_config, **({"timing": timing} | getattr(request, "param", {})))
    engine, sink, crashes = SleepingEngine(), Recorder(), []
    reasoner = Reasoner(config, engine, sink, time.monotonic_ns, crashes.append)
    reasoner.engine, reasoner.sink, reasoner.crashes = engine, sink, crashes
    reasoner.camera = lambda: reasoner.slot.write(PIXELS, time.monotonic_ns())
    reasoner.warm_up()
    yield reasoner
    engine.release.set()
    reasoner.close()


def acted(record):
    return record.outcome is Outcome.ACTED


def act(run):
    """Send frames until one more was acted on: on a busy machine a chunk may come too late."""
    before = sum(map(acted, run.sink.records))
    while sum(map(acted, run.sink.records)) == before:
        run.camera()
        run.sink.wait_for(lambda record: True, len(run.sink.records) + 2)


def test_acts_on_frames_and_ends_in_zero_motion(run):
    run.start()
    run.camera()
    run.sink.wait_for(acted)
    run.camera()
    run.sink.wait_for(acted, 2)
    run.stop()
    last = run.sink.records[-1]
    assert last.outcome is Outcome.STOPPED and last.source is ActionSource.ZERO
    assert run.crashes == []


def test_the_first_chunk_of_a_run_is_judged_by_the_warm_up(run):
    """Fault A13: nothing is learned from the first chunk of a process, nor is it admitted blindly."""
    run.start()
    run.camera()
    run.sink.wait_for(acted)
    first = next(record for record in run.sink.records if acted(record))
    assert first.decision.reason is Reason.WITHIN_BUDGET
    assert first.decision.predicted_ms == pytest.approx(0.01 + 0.1 + 7 * 0.01)  # as SleepingEngine reports


def test_an_engine_too_slow_for_the_deadline_is_warned_about_in_warm_up(run, caplog):
    """Fault A24."""
    run.engine.prefill_s = 95.0  # as reported; the engine does not sleep it
    run.warm_up()
    assert "a chunk takes 95.2 ms with a full cache, 18.0 ms are there" in caplog.text


def test_every_period_of_a_stall_is_answered_once_and_the_late_result_never(run):
    """Fault A20: the reasoning thread hangs in the engine, the watchdog answers period after period."""
    run.start()
    run.camera()
    run.sink.wait_for(acted)
    run.engine.hold.set()
    run.camera()
    assert run.engine.holding.wait(10)
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
    run.camera()
    run.sink.wait_for(acted)
    run.engine.hold.set()
    run.camera()
    assert run.engine.holding.wait(10)
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


def test_started_again_it_answers_from_a_fresh_grid(run):
    for _ in range(2):
        run.start()
        run.camera()
        before = sum(map(acted, run.sink.records))
        run.sink.wait_for(acted, before + 1)
        run.stop()
        assert run.sink.records[-1].outcome is Outcome.STOPPED
    assert run.metrics.snapshot().cycles < len(run.sink.records)


UNHURRIED = TimingConfig(period_ms=200.0, deadline_ms=200.0, max_frame_age_ms=1e4)
KEEPING = CacheConfig(capacity_slots=512, eviction="fifo", protect_latest=2, keep_on_deactivate=True)


@pytest.mark.parametrize(
    ("run", "keeps"),
    [({"timing": UNHURRIED}, False), ({"timing": UNHURRIED, "cache": KEEPING}, True)],
    indirect=["run"],
)
def test_what_was_seen_before_a_deactivation_steers_nothing_unless_it_is_kept(run, keeps):
    run.start()
    for _ in range(3):
        act(run)
    run.stop()
    chunks = len(run.engine.chunks)
    pages_before = run.engine.chunks[-1][0]
    run.start()
    act(run)
    run.stop()
    pages, draft = run.engine.chunks[chunks]
    prompt_pages = 1
    expected = (pages_before + 1, tuple(range(300, 308))) if keeps else (prompt_pages + 1, ())
    assert (pages, draft) == expected
    decisions = [record.decision for record in run.sink.records if record.decision]
    assert Reason.FIRST_CHUNK not in [decision.reason for decision in decisions], "costs stay known"
    assert len(run.engine.prompts) == 1, "the prompt stays pinned"


def test_a_used_frame_is_not_acted_on_again_after_a_deactivation(run):
    run.start()
    act(run)
    run.stop()
    before = len(run.sink.records)
    run.start()
    run.sink.wait_for(lambda record: True, before + 4)
    run.stop()
    outcomes = {record.outcome for record in run.sink.records[before:-1]}
    assert Outcome.ACTED not in outcomes and Outcome.NO_NEW_FRAME in outcomes


def test_stop_without_start_and_close_twice_do_nothing(run):
    run.stop()
    run.close()
    run.close()
    assert run.sink.records == []


def test_new_instruction_is_pinned_while_running(run):
    run.start()
    run.set_instruction("pick up the red cup")
    run.camera()
    run.sink.wait_for(acted)
    assert len(run.engine.prompts) == 2 and run.instruction == "pick up the red cup"


def test_the_same_instruction_again_is_no_change(run):
    run.start()
    assert run.set_instruction("pick up the red cup") is True
    assert run.set_instruction("pick up the red cup") is False, "it waits to be pinned already"
    run.camera()
    run.sink.wait_for(acted)
    assert run.set_instruction("pick up the red cup") is False
    run.camera()
    run.sink.wait_for(acted, 2)
    assert len(run.engine.prompts) == 2  # that of the warm-up and this one


@pytest.mark.parametrize("text", ["", " ", "\n\t"])
def test_a_blank_instruction_is_refused_and_the_old_one_stays(run, text):
    old = run.instruction
    with pytest.raises(ConfigError, match=r"^prompt\.instruction must"):
        run.set_instruction(text)
    assert run.instruction == old


def test_instruction_too_long_is_refused_and_the_old_one_stays(run, tiny_config):
    old = run.instruction
    with pytest.raises(InstructionError, match="32"):
        run.set_instruction("x" * 1000)
    assert run.instruction == old


def test_prompt_of_the_config_that_is_too_long_is_refused_at_once(tiny_config):
    config = replace(tiny_config, prompt=PromptConfig(max_pages=1, instruction="y" * 500))
    with pytest.raises(InstructionError):
        Reasoner(config, SleepingEngine(), Recorder(), time.monotonic_ns, print)
