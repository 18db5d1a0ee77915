# SPDX-License-Identifier: Apache-2.0
"""Every outcome of a cycle, on a fake clock and a scripted engine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vla_edge_ros.config import AdmissionConfig, EngineConfig
from vla_edge_ros.errors import EngineError, EngineLostError
from vla_edge_ros.runtime.frame_slot import FrameSlot
from vla_edge_ros.runtime.pinned_prompt import Prompt
from vla_edge_ros.types import ActionSource, Outcome

STAGES = ["vision", "prefill", *(f"decode{step}" for step in range(7))]


def test_acted_on_a_new_frame_in_the_order_of_the_design(rig):
    record = rig.cycle()
    assert record.outcome is Outcome.ACTED and record.source is ActionSource.FRESH
    assert rig.engine.calls == STAGES
    assert record.action.stamp_ns == rig.slot.frame.stamp_ns
    assert record.tokens == tuple(range(8))
    assert record.latency_ms == pytest.approx(1 + 5 + 7)
    assert record.times.completed and record.times.total_ms == pytest.approx(13)
    assert rig.admission.learned == [record.times]


def test_no_frame_yet_publishes_nothing(rig):
    record = rig.cycle(camera=False)
    assert record.outcome is Outcome.NO_FRAME_YET and record.source is ActionSource.NONE
    assert rig.sink.published == [] and rig.engine.calls == []


def test_no_new_frame_repeats_and_does_not_prefill_twice(rig):
    rig.cycle()
    rig.engine.calls.clear()
    record = rig.cycle(camera=False)
    assert record.outcome is Outcome.NO_NEW_FRAME and record.source is ActionSource.REPEAT
    assert rig.engine.calls == [] and len(rig.cache.memory) == 1


def test_slow_camera_inserts_each_frame_once(rig):
    """Fault A2: a camera at a third of the loop's rate."""
    for number in range(60):
        rig.cycle(camera=number % 3 == 0)
    inserted = [record.frame_sequence for record in rig.sink.records if record.outcome is Outcome.ACTED]
    assert inserted == list(range(1, 21))


def test_stale_frame_is_not_acted_on(rig):
    rig.cycle()
    record = rig.cycle(age_ms=100.1)
    assert record.outcome is Outcome.STALE_FRAME and record.source is ActionSource.REPEAT
    assert record.frame_age_ms == pytest.approx(100.1)
    assert rig.cycle(age_ms=99.0).outcome is Outcome.ACTED


def test_dead_camera_becomes_stale_and_ends_in_zero_motion(rig):
    """Fault A3."""
    rig.cycle()
    sources = [rig.cycle(camera=False).source for _ in range(6)]
    assert sources == [ActionSource.REPEAT] * 3 + [ActionSource.ZERO] * 3
    assert rig.sink.records[-1].outcome is Outcome.STALE_FRAME


def test_frame_stamp_in_the_future_has_no_negative_age(rig):
    assert rig.cycle(age_ms=-20).frame_age_ms == 0.0


def test_time_from_the_cameras_stamp_to_the_action_is_measured(rig):
    """Fault A4: 20 ms old when the cycle began, 13 ms of work."""
    rig.cycle(age_ms=20)
    assert rig.metrics.snapshot().sensor_to_action_ms.max == pytest.approx(33.0)


@pytest.mark.parametrize("ros_time_ms", [0, 500, 10**9], ids=["back to zero", "back and frozen", "far ahead"])
def test_a_ros_clock_that_jumps_or_stands_still_does_not_touch_the_budgets(rig, monkeypatch, ros_time_ms):
    """Fault A5: ROS time (simulated, paused, set back) decides on a frame's age and on nothing else."""
    rig.cycle()
    for holder in (rig.loop, rig.answers):
        monkeypatch.setattr(holder, "_frame_time_ns", lambda: ros_time_ms * 1_000_000)
    record = rig.cycle()
    if ros_time_ms == 10**9:
        assert record.outcome is Outcome.STALE_FRAME and record.source is not ActionSource.FRESH
        return
    assert record.outcome is Outcome.ACTED and record.frame_age_ms == 0.0
    assert record.decision.elapsed_ms == 0.0 and record.latency_ms == pytest.approx(13.0)
    sources = [rig.cycle(camera=False).source for _ in range(5)]
    assert sources == [ActionSource.REPEAT] * 3 + [ActionSource.ZERO] * 2  # counted, where time cannot be


def test_the_engine_reads_the_pixels_where_the_writer_put_them(rig, monkeypatch):
    """Fault A8: between the image callback's one copy and the engine there is no second one."""
    slot, seen = FrameSlot(64, 128), []
    embed = rig.engine.embed_frame
    monkeypatch.setattr(rig.loop, "_slot", slot)
    monkeypatch.setattr(rig.engine, "embed_frame", lambda pixels: (seen.append(pixels), embed(pixels))[1])
    slot.write(np.full((64, 128, 3), 9, np.uint8), rig.clock.now_ns + 33_000_000)
    assert rig.cycle(camera=False).outcome is Outcome.ACTED
    (pixels,) = seen
    address = pixels.__array_interface__["data"][0]
    assert slot.memory_address <= address < slot.memory_address + slot.memory_bytes
    assert not pixels.flags.writeable


def test_refused_does_no_work_and_keeps_the_frame_for_the_next_cycle(rig):
    rig.cycle()
    rig.engine.calls.clear()
    rig.admission.admit = False
    record = rig.cycle()
    assert record.outcome is Outcome.REFUSED and record.decision.predicted_ms == 13.0
    assert rig.engine.calls == []
    rig.admission.admit = True
    assert rig.cycle(camera=False).outcome is Outcome.ACTED  # the refused frame was never used


def test_admission_is_told_the_real_elapsed_time(rig):
    """Fault A14: work before admission counts, here a prompt rewrite of 3 ms."""
    rig.loop.change_prompt(Prompt("x", np.arange(6)))
    assert rig.cycle().decision.elapsed_ms == pytest.approx(3.0)


@pytest.mark.parametrize("stage", range(len(STAGES) + 1))
def test_aborted_before_any_stage_leaves_the_cache_as_it_was(rig, stage):
    """Where nothing is remembered without an action; test_remembering.py has what is kept otherwise."""
    rig = rig.build(replace(rig.config, admission=AdmissionConfig(remember=False)))
    rig.cycle()
    before = rig.cache.state()
    rig.engine.calls.clear()
    spent = [0, 1, 6, 7, 8, 9, 10, 11, 12, 1e9][stage]
    rig.admission.abort_after_ms = spent - 0.5
    record = rig.cycle()
    if stage == len(STAGES):
        assert record.outcome is Outcome.ACTED
        return
    assert record.outcome is Outcome.ABORTED and record.source is ActionSource.REPEAT
    assert rig.engine.calls == STAGES[:stage]
    assert rig.cache.state() == before
    assert not rig.admission.learned[-1].completed
    assert rig.admission.learned[-1].decode_ms == (1.0,) * max(0, stage - 2)


@pytest.mark.parametrize("stage", STAGES)
def test_engine_error_at_any_stage_rolls_back_and_falls_back(rig, stage):
    """Fault A23."""
    rig.cycle()
    before = rig.cache.state()
    rig.engine.fail_at = stage
    record = rig.cycle()
    assert record.outcome is Outcome.ENGINE_ERROR and stage in record.error
    assert record.source is ActionSource.REPEAT
    assert rig.cache.state() == before
    rig.engine.fail_at = None
    assert rig.cycle().outcome is Outcome.ACTED


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_embedding_that_is_not_finite_is_an_engine_error(rig, value):
    """Fault A35: refused before it reaches the memory or the prefill."""
    rig.engine.embedding = np.array([1.0, value], np.float32)
    record = rig.cycle()
    assert record.outcome is Outcome.ENGINE_ERROR and "not finite" in record.error
    assert len(rig.cache.memory) == 0 and "prefill" not in rig.engine.calls


def test_late_result_is_never_published_but_its_frame_is_kept(rig):
    rig.cycle()
    published = len(rig.sink.records)
    rig.claims.take(2)  # the watchdog answers for the cycle first
    assert rig.cycle() is None
    assert len(rig.sink.records) == published
    assert rig.cache.memory.sequences.tolist() == [1, 2]
    assert rig.metrics.snapshot().dropped_results == 1
    assert rig.admission.learned[-1].completed  # its cost is real


def test_unexpected_exception_leaves_the_loop_rolled_back(rig, monkeypatch):
    rig.cycle()
    before = rig.cache.state()
    monkeypatch.setattr(rig.engine, "prefill", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        rig.cycle()
    assert rig.cache.state() == before


def test_view_holds_the_prompt_the_kept_frames_and_the_incoming_page(rig):
    for _ in range(3):
        rig.cycle()
    view = rig.engine.views[-1]
    assert view.fills.tolist() == [5, 32, 32, 32]
    assert len(set(view.pages.tolist()) | {view.action_page}) == 5
    assert view.slots_in_use == 5 + 3 * 32 == rig.admission.asked_slots[-1]


def test_slots_stay_constant_over_a_thousand_cycles(rig):
    """Faults A30, A31: action tokens are not kept, a full cache never overflows."""
    for _ in range(1000):
        record = rig.cycle()
    full = record.slots_in_use
    assert full == 5 + rig.cache.room * 32
    assert len(rig.engine.views[-1].pages) == 1 + rig.cache.room + 1
    assert record.evicted_sequence == 1000 - rig.cache.room


def test_after_refusals_the_newest_frame_is_kept_and_the_hole_is_measured(rig):
    """Fault A22: five cycles refused, 198 ms between two kept frames."""
    rig.cycle()
    rig.admission.admit = False
    for _ in range(5):
        rig.cycle()
    rig.admission.admit = True
    rig.cycle()
    assert rig.cache.memory.sequences.tolist() == [1, 7]
    assert rig.metrics.snapshot().longest_memory_gap_ms == pytest.approx(6 * 33)


@pytest.mark.parametrize("stage", ["prompt", *STAGES])
def test_an_engine_that_is_lost_is_told_once_and_zero_motion_goes_on(rig, monkeypatch, caplog, stage):
    """Each cycle is answered; nobody asks the engine again, and the log does not repeat it."""
    rig.cycle()
    rig.loop.change_prompt(Prompt("x", np.arange(7)))

    def lose(name, ms, do=rig.engine._do):
        do(name, ms)
        if name == stage:
            raise EngineLostError("the GPU is lost to this process: restart the process")

    monkeypatch.setattr(rig.engine, "_do", lose)
    records = [rig.cycle()]
    asked = len(rig.engine.calls)
    records += [rig.cycle() for _ in range(50)]
    assert len(rig.engine.calls) == asked
    assert all(record.outcome is Outcome.ENGINE_ERROR for record in records)
    assert all("restart the process" in record.error for record in records)
    assert [record.source for record in records[3:]] == [ActionSource.ZERO] * 48
    assert [entry.levelname for entry in caplog.records] == ["ERROR"]
    assert "restart the process" in caplog.text


def test_an_engine_error_that_is_kept_does_not_keep_the_frame(rig, monkeypatch):
    """Nor does the library's error that it was made of: its frames hold the pixels too."""
    kept = []

    def fail(pixels):
        try:
            raise RuntimeError("of a library")
        except RuntimeError as cause:
            error = EngineError("translated")
            kept.append(error)
            raise error from cause

    monkeypatch.setattr(rig.engine, "embed_frame", fail)
    assert rig.cycle().outcome is Outcome.ENGINE_ERROR
    (error,) = kept
    assert error.__traceback__ is None and error.__cause__.__traceback__ is None


def test_the_last_action_is_the_draft_of_the_next_one(rig):
    """Nothing before the first action; an aborted chunk leaves no draft behind."""
    tokens = rig.cycle().tokens
    rig.cycle()
    assert rig.engine.drafts == [(), tokens]
    rig.admission.abort_after_ms = 7.5  # between two decode steps
    assert rig.cycle().outcome is Outcome.ABORTED
    rig.admission.abort_after_ms = 1e9
    rig.cycle()
    assert rig.engine.drafts[2:] == [tokens, ()], "a draft whose chunk was aborted speaks against drafts"


def test_drafts_that_cost_more_than_they_save_are_left_out(rig):
    rig.cycle()
    rig.engine.step_ms = 2.0  # as if every draft token were rejected
    rig.cycle()
    rig.engine.step_ms = 1.0
    for _ in range(5):
        rig.cycle()
    assert [bool(draft) for draft in rig.engine.drafts] == [False, True, False, False, False, False, False]


def test_without_drafts_in_the_configuration_none_is_offered_and_no_chunk_counts_as_drafted(rig):
    plain = rig.build(replace(rig.config, engine=EngineConfig(draft="none")))
    records = [plain.cycle() for _ in range(4)]
    assert plain.engine.drafts == [()] * 4
    assert not any(record.times.drafted for record in records)
