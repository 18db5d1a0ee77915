# SPDX-License-Identifier: Apache-2.0
"""Frames that are kept without an action, with the NumPy engine and with both threads on the real clock."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from sequence_layouts import LAYOUTS, config_of
from sleeping_engine import Recorder, act, acted

from vla_edge_ros.config import TimingConfig
from vla_edge_ros.engines.numpy_engine import NumpyEngine
from vla_edge_ros.model.weights import open_weights
from vla_edge_ros.runtime.camera_pace import CameraPace
from vla_edge_ros.runtime.reasoner import Reasoner
from vla_edge_ros.types import NS_PER_MS, ActionSource, Frame, Outcome, Reason

KEEPING = [
    name
    for name in LAYOUTS
    if (layout := config_of(name).layout).most_frames is None and layout.decode_steps > 0
]
FRAMES = 26  # more than any of them keeps
CALM = TimingConfig(period_ms=400.0, deadline_ms=400.0, max_frame_age_ms=1e5)


@pytest.fixture(params=KEEPING)
def numpy_rig(rig, request):
    """Makes a control loop with an engine of its own; ``see(pixels)``: one cycle on this picture."""
    config, made = config_of(request.param), []

    def make():
        one = rig.build(config)
        one.engine = NumpyEngine(config, open_weights(config.model))
        one.engine.load()
        one.loop._engine = one.engine
        suffix = tuple(range(60, 97)) if config.layout.suffix_tokens else ()
        one.loop._prompt._prompt = replace(one.loop._prompt._prompt, suffix=suffix)
        one.loop.pin_first_prompt()

        def see(pixels):
            sequence = one.number + 1
            one.slot.frame = Frame(pixels, (1_000 + sequence * 33) * NS_PER_MS, sequence, True)
            return one.cycle(camera=False)

        one.see = see
        made.append(one)
        return one

    yield make
    for one in made:
        one.engine.close()


def test_what_is_kept_and_what_follows_are_those_of_whole_chunks_to_the_bit(numpy_rig):
    """One loop acts on every frame; in the other most are remembered without an action, or aborted.

    The frames' keys and values, and the tokens of every cycle that both act in, do not differ by a bit: no
    row of an action or of a suffix is kept, and none is missing.
    """
    whole, other = numpy_rig(), numpy_rig()
    other.admission.room_to_remember_ms = 20.0
    shape = (whole.config.frame.height, whole.config.frame.width, 3)
    rng, both = np.random.default_rng(8), 0
    for number in range(FRAMES):
        kind = ("act", "refuse", "refuse", "abort at once", "refuse", "abort late")[number % 6]
        aborts_at = {"abort at once": 0, "abort late": 4}.get(kind)
        other.admission.admit = kind != "refuse"
        other.admission.must_abort = lambda elapsed_ms, so_far, at=aborts_at: (
            at is not None and so_far.prefill_ms > 0 and len(so_far.decode_ms) == at
        )
        pixels = rng.integers(0, 256, shape, np.uint8)
        expected, got = whole.see(pixels), other.see(pixels)
        outcome = {"act": Outcome.ACTED, "refuse": Outcome.REFUSED}.get(kind, Outcome.ABORTED)
        assert (expected.outcome, got.outcome) == (Outcome.ACTED, outcome)
        if kind == "act":
            both += 1
            assert got.tokens == expected.tokens
        assert other.cache.memory.sequences.tolist() == whole.cache.memory.sequences.tolist()
        assert other.cache.state() == whole.cache.state()
        pages = whole.cache.pages_of(whole.cache.memory.blocks)
        kept = [one.engine.decoder.kv[:, pages] for one in (whole, other)]
        assert np.array_equal(*kept)
    assert both == 5 and len(whole.cache.memory) < FRAMES


def refuse(reasoner, monkeypatch, refuses):
    """``refuses()`` says whether the chunk that is decided on is refused; the camera counts as fast."""
    monkeypatch.setattr(CameraPace, "is_one_a_cycle", True)
    decide = reasoner._admission.decide

    def deciding(*arguments):
        decision = decide(*arguments)
        if not refuses():
            return decision
        return replace(decision, admitted=False, reason=Reason.OVER_BUDGET)

    monkeypatch.setattr(reasoner._admission, "decide", deciding)


def test_the_whole_reasoner_keeps_every_frame_though_two_of_three_cycles_are_refused(monkeypatch):
    config = config_of("32 tokens and memory", timing=CALM)
    sink, crashes, asked = Recorder(), [], [0]
    reasoner = Reasoner(
        config, NumpyEngine(config, open_weights(config.model)), sink, time.monotonic_ns, crashes.append
    )
    pixels = np.random.default_rng(3).integers(0, 256, (9, 64, 128, 3), np.uint8)

    def refuses():
        asked[0] += 1
        return asked[0] % 3 != 1

    try:
        reasoner.warm_up()
        refuse(reasoner, monkeypatch, refuses)
        reasoner.start()
        for number, picture in enumerate(pixels, start=1):
            reasoner.slot.write(picture, time.monotonic_ns())
            sink.wait_for(lambda record, number=number: record.frame_sequence == number)
            # The next record is published once the frame is in the memory.
            sink.wait_for(lambda record: True, len(sink.records) + 1)
    finally:
        reasoner.stop()
        kept = reasoner.cache.memory.sequences.tolist()
        reasoner.close()
    assert crashes == [] and kept == list(range(1, 10))
    told = [record.remembered_before.sequence for record in sink.records if record.remembered_before]
    assert told == [2, 3, 5, 6, 8, 9]
    assert [r.frame_sequence for r in sink.records if acted(r)] == [1, 4, 7]
    assert reasoner.metrics.snapshot().remembered_frames == 6


def test_a_stall_behind_an_answer_delays_no_answer(run, monkeypatch):
    """Fault A20: the refused cycle has been answered; the watchdog answers those that the stall takes."""
    refusing = [False]
    refuse(run, monkeypatch, lambda: refusing[0])
    run.start()
    act(run)
    refusing[0] = True
    run.engine.hold.set()
    run.camera()
    assert run.engine.holding.wait(20)
    run.sink.wait_for(lambda record: record.outcome is Outcome.LATE, 5)
    refusing[0] = False
    run.engine.hold.clear()
    run.engine.release.set()
    act(run)
    run.stop()
    (refused,) = (record for record in run.sink.records if record.outcome is Outcome.REFUSED)
    stalled = refused.frame_sequence
    assert refused.latency_ms < run._config.timing.deadline_ms and refused.source is ActionSource.REPEAT
    cycles = [record.cycle for record in run.sink.records[:-1]]
    assert cycles == list(range(cycles[0], cycles[0] + len(cycles)))
    assert stalled in run.cache.memory.sequences.tolist() and run.crashes == []
    assert [r.remembered_before.sequence for r in run.sink.records if r.remembered_before] == [stalled]
