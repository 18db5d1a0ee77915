# SPDX-License-Identifier: Apache-2.0
"""Frames kept without an action: refused ones behind their answer, aborted ones with a whole prefill."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vla_edge_ros.config import AdmissionConfig
from vla_edge_ros.engines.base import Decoded
from vla_edge_ros.errors import EngineError, EngineLostError
from vla_edge_ros.runtime.pinned_prompt import Prompt
from vla_edge_ros.types import ActionSource, Outcome, Remembered


@pytest.fixture
def refusing(rig):
    """One cycle has acted; from now on all are refused, with room for a prefill."""
    rig.cycle()
    rig.engine.calls.clear()
    rig.admission.admit, rig.admission.room_to_remember_ms = False, 20.0
    return rig


def kept(rig) -> list[int]:
    return rig.cache.memory.sequences.tolist()


def test_a_refused_frame_is_remembered_behind_the_answer_and_nothing_is_decoded(refusing, monkeypatch):
    """The answer is out, and took no time, before the engine is asked for anything."""
    answered = []

    def do(stage, ms, do=refusing.engine._do):
        answered.append(len(refusing.sink.records))
        do(stage, ms)

    monkeypatch.setattr(refusing.engine, "_do", do)
    record = refusing.cycle()
    assert (record.outcome, record.source) == (Outcome.REFUSED, ActionSource.REPEAT)
    assert record.latency_ms == 0.0 and record.times is None and record.tokens == ()
    assert refusing.engine.calls == ["vision", "prefill"] and answered == [2, 2]
    assert kept(refusing) == [1, 2] and not refusing.cache.state()[-1]


def test_its_prefill_is_that_of_a_chunk_without_a_draft(rig, monkeypatch):
    rig.loop.change_prompt(Prompt("x", np.arange(5), (7, 8)))
    suffixes, prefill = [], rig.engine.prefill
    monkeypatch.setattr(
        rig.engine, "prefill", lambda view, draft, suffix: (suffixes.append(suffix), prefill(view, draft))[1]
    )
    rig.cycle()
    rig.admission.admit, rig.admission.room_to_remember_ms = False, 20.0
    rig.cycle()
    assert rig.engine.drafts == [(), ()] and suffixes == [(7, 8)] * 2
    assert rig.engine.views[-1].slots_in_use == 5 + 2 * 32 == rig.admission.asked_to_remember[1]


def test_it_is_told_by_the_next_record_and_by_the_metrics_at_once(refusing):
    refusing.cycle()
    assert refusing.metrics.snapshot().remembered_frames == 1
    records = [refusing.cycle(), refusing.cycle(camera=False)]
    assert [r.remembered_before for r in records] == [
        Remembered(2, None, vision_ms=1.0, prefill_ms=5.0),
        Remembered(3, None, vision_ms=1.0, prefill_ms=5.0),
    ]
    assert refusing.cycle(camera=False).remembered_before is None
    assert not any(record.remembered for record in records)


def test_a_remembered_frame_is_neither_acted_on_nor_inserted_again(refusing):
    """Fault A2."""
    refusing.cycle()
    refusing.admission.admit = True
    assert refusing.cycle(camera=False).outcome is Outcome.NO_NEW_FRAME
    assert refusing.cycle().outcome is Outcome.ACTED
    assert kept(refusing) == [1, 2, 3]


def test_what_it_took_is_learned_as_such_and_as_no_chunk(refusing):
    chunks = len(refusing.admission.learned)
    refusing.cycle()
    (times,) = refusing.admission.learned_remembered
    assert (times.vision_ms, times.prefill_ms, times.decode_ms) == (1.0, 5.0, ())
    assert not times.completed and not times.drafted and times.slots_in_use == 5 + 2 * 32
    assert len(refusing.admission.learned) == chunks


def test_without_room_for_a_prefill_the_frame_is_left_for_the_next_cycle(refusing):
    refusing.admission.room_to_remember_ms = -1.0
    before = refusing.cache.state()
    refusing.cycle()
    assert refusing.engine.calls == [] and refusing.cache.state() == before
    refusing.admission.admit = True
    assert refusing.cycle(camera=False).outcome is Outcome.ACTED


def test_an_embedding_that_took_too_long_ends_it_and_leaves_the_cache_as_it_was(refusing):
    before = refusing.cache.state()
    refusing.engine.vision_ms, refusing.admission.abort_after_ms = 9.0, 8.0
    assert refusing.cycle().outcome is Outcome.REFUSED
    assert refusing.engine.calls == ["vision"] and refusing.cache.state() == before
    assert refusing.admission.learned_remembered[-1].prefill_ms == 0.0
    refusing.admission.admit, refusing.admission.abort_after_ms = True, 1e9
    assert refusing.cycle(camera=False).outcome is Outcome.ACTED  # it was not used
    assert refusing.metrics.snapshot().remembered_frames == 0


@pytest.mark.parametrize("failing", ["vision", "prefill", "embedding"])
def test_an_engine_error_behind_the_answer_is_told_once_and_not_tried_again_until_a_chunk_ran(
    refusing, caplog, failing
):
    """Fault A23; the answer is out already, so it stays a refusal."""
    before = refusing.cache.state()
    refusing.engine.fail_at = failing
    if failing == "embedding":
        refusing.engine.embedding = np.full(8, np.nan, np.float32)
    records = [refusing.cycle() for _ in range(5)]
    assert {record.outcome for record in records} == {Outcome.REFUSED}
    assert refusing.cache.state() == before and refusing.engine.calls.count("vision") == 1
    assert refusing.metrics.snapshot().last_error != "" and len(caplog.records) == 1
    assert refusing.admission.learned_remembered == []
    refusing.engine.fail_at, refusing.engine.embedding = None, np.ones(8, np.float32)
    refusing.admission.admit = True
    refusing.cycle()
    refusing.admission.admit = False
    refusing.cycle()
    assert kept(refusing) == [1, 7, 8]


def test_an_engine_that_is_lost_behind_an_answer_is_not_asked_again(refusing, monkeypatch):
    def lose(pixels):
        raise EngineLostError("the GPU is lost to this process: restart the process")

    monkeypatch.setattr(refusing.engine, "embed_frame", lose)
    outcomes = [refusing.cycle().outcome for _ in range(3)]
    assert outcomes == [Outcome.REFUSED, Outcome.ENGINE_ERROR, Outcome.ENGINE_ERROR]


def test_an_error_behind_the_answer_does_not_keep_the_frame(refusing, monkeypatch):
    error = EngineError("kept by somebody")
    monkeypatch.setattr(refusing.engine, "embed_frame", lambda pixels: (_ for _ in ()).throw(error))
    refusing.cycle()
    assert error.__traceback__ is None


def test_an_unforeseen_exception_behind_the_answer_leaves_the_loop_rolled_back(refusing, monkeypatch):
    before = refusing.cache.state()
    monkeypatch.setattr(refusing.engine, "prefill", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        refusing.cycle()
    assert refusing.cache.state() == before and refusing.sink.records[-1].outcome is Outcome.REFUSED


def test_a_cycle_that_the_watchdog_answered_remembers_nothing(refusing):
    refusing.claims.take(2)
    assert refusing.cycle() is None
    assert refusing.engine.calls == [] and kept(refusing) == [1]


def test_what_was_remembered_waits_for_a_record_that_is_published(refusing):
    refusing.cycle()
    refusing.claims.take(3)
    assert refusing.cycle() is None
    assert refusing.cycle().remembered_before.sequence == 2


@pytest.mark.parametrize("sections", ["off", "no memory", "parallel decoding"])
def test_nothing_is_remembered_where_it_is_off_or_there_is_nothing_to_gain(rig, sections):
    config = {
        "off": {"admission": AdmissionConfig(remember=False)},
        "no memory": {"cache": replace(rig.config.cache, max_frames=0)},
        "parallel decoding": {"action": replace(rig.config.action, decoding="parallel")},
    }[sections]
    rig = rig.build(replace(rig.config, **config))
    rig.cycle()
    rig.engine.calls.clear()
    rig.admission.admit, rig.admission.room_to_remember_ms = False, 20.0
    rig.cycle()
    assert rig.engine.calls == []
    rig.admission.admit, rig.admission.abort_after_ms = True, 6.5
    assert not rig.cycle().remembered
    rig.admission.abort_after_ms = 1e9
    assert rig.cycle(camera=False).outcome is Outcome.ACTED


def test_refusals_that_are_remembered_leave_no_hole_in_the_memory(refusing):
    """Fault A22."""
    for _ in range(5):
        refusing.cycle()
    refusing.admission.admit = True
    refusing.cycle()
    assert kept(refusing) == list(range(1, 8))
    assert refusing.metrics.snapshot().longest_memory_gap_ms == pytest.approx(33)


@pytest.mark.parametrize(("spent_ms", "steps"), [(5.9, 0), (6.5, 1), (12.5, 7)])
def test_a_chunk_that_is_aborted_behind_its_prefill_keeps_the_frame(rig, spent_ms, steps):
    """Fault A23 holds before: see the next test."""
    rig.cycle()
    rig.admission.abort_after_ms = spent_ms
    if steps == 7:
        rig.engine.decode = late_last_step(rig.engine)
    record = rig.cycle()
    assert record.outcome is Outcome.ABORTED and record.remembered
    assert record.source is ActionSource.REPEAT and record.tokens == ()
    assert kept(rig) == [1, 2] and rig.metrics.snapshot().remembered_frames == 1
    assert not rig.admission.learned[-1].completed
    rig.admission.abort_after_ms = 1e9
    assert rig.cycle(camera=False).outcome is Outcome.NO_NEW_FRAME
    rig.cycle()
    assert rig.metrics.snapshot().longest_memory_gap_ms == pytest.approx(66)  # the cycle without a frame


def late_last_step(engine):
    """All steps but the last one ran: the chunk ends with what it has."""

    def decode(view, count, should_stop):
        for _ in range(count - 1):
            engine._do("step", 1.0)
        return Decoded(tuple(range(count - 1)), (1.0,) * (count - 1), should_stop(()))

    return decode


@pytest.mark.parametrize("spent_ms", [-0.5, 0.5])
def test_a_chunk_that_is_aborted_before_its_prefill_keeps_nothing(rig, spent_ms):
    rig.cycle()
    before = rig.cache.state()
    rig.admission.abort_after_ms = spent_ms
    record = rig.cycle()
    assert record.outcome is Outcome.ABORTED and not record.remembered
    assert rig.cache.state() == before


def test_an_aborted_chunk_that_the_watchdog_answered_for_keeps_its_frame_too(rig):
    rig.cycle()
    rig.claims.take(2)
    rig.admission.abort_after_ms = 6.5
    assert rig.cycle() is None
    assert kept(rig) == [1, 2] and rig.metrics.snapshot().remembered_frames == 1


KINDS = (
    *("act", "refuse", "remember", "give up", "abort early", "abort early, no room", "abort late", "fail"),
    *("late", "no frame"),
)


@given(history=st.lists(st.sampled_from(KINDS), max_size=60))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_history_keeps_each_frame_once_in_order_and_every_block_has_one_holder(rig, history):
    rig = rig.build()  # a fresh one for each history
    for kind in history:
        rig.admission.admit = kind not in ("refuse", "remember", "give up")
        rig.admission.room_to_remember_ms = -1.0 if kind in ("refuse", "abort early, no room") else 20.0
        aborts = {"give up": 0.5, "abort early": 0.5, "abort early, no room": 0.5, "abort late": 6.5}
        rig.admission.abort_after_ms = aborts.get(kind, 1e9)
        rig.engine.fail_at = "decode0" if kind == "fail" else None
        if kind == "late":
            rig.claims.take(rig.number + 1)
        rig.brisk()
        before, fresh = kept(rig), kind != "no frame"
        rig.cycle(camera=fresh)
        sequences = kept(rig)
        assert sequences == sorted(set(sequences)) and not rig.cache.state()[-1]
        if kind in ("act", "remember", "abort early", "abort late", "late"):
            assert sequences[-1] == rig.slot.sequence
        elif kind != "no frame":
            assert sequences == before
        blocks = rig.cache.memory.blocks.tolist() + rig.cache._free
        assert sorted(blocks) == list(range(rig.cache.room + 1))
        assert len(sequences) <= rig.cache.room
