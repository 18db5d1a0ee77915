# SPDX-License-Identifier: Apache-2.0
"""Both threads together on the real clock, slot and watchdog, with a scripted engine that really sleeps."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from sleeping_engine import Recorder, SleepingEngine, act, acted

from vla_edge_ros.config import CacheConfig, PromptConfig, TimingConfig
from vla_edge_ros.errors import ConfigError, InstructionError
from vla_edge_ros.runtime.reasoner import Reasoner
from vla_edge_ros.types import ActionSource, Outcome, Reason


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
