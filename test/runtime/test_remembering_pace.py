# SPDX-License-Identifier: Apache-2.0
"""When a frame is better tried again than remembered, and that what was remembered is told once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vla_edge_ros.runtime.camera_pace import FEWEST, WINDOW, CameraPace
from vla_edge_ros.types import Outcome


def seen(camera_hz: float, loop_hz: float = 30.0, cycles: int = 60, jitter_ms: float = 0.0) -> list[bool]:
    """What is said in each cycle of a loop beside a camera."""
    rng = np.random.default_rng(0)
    came = np.sort(np.arange(600) / camera_hz + rng.uniform(-1, 1, 600) * jitter_ms / 1e3)
    pace, said = CameraPace(), []
    for cycle in range(cycles):
        newest = int(np.searchsorted(came, cycle / loop_hz, "right"))
        if newest:
            pace.see(cycle, newest)
        said.append(pace.is_one_a_cycle)
    return said


@pytest.mark.parametrize(
    ("camera_hz", "is_fast"), [(60, True), (30, True), (25, False), (15, False), (10, False)]
)
def test_a_camera_is_as_fast_as_the_loop_or_it_is_not(camera_hz, is_fast):
    said = seen(camera_hz)
    assert not any(said[:FEWEST]) and set(said[WINDOW:]) == {is_fast}


def test_jitter_of_a_camera_of_the_loops_own_rate_does_not_count():
    said = seen(30, jitter_ms=6.0)[WINDOW:]
    assert sum(said) > 0.9 * len(said)


@given(st.lists(st.tuples(st.integers(-3, 50), st.integers(0, 50)), max_size=40))
def test_any_numbers_are_taken(pairs):
    pace = CameraPace()
    for cycle, sequence in pairs:
        pace.see(cycle, sequence)
        assert pace.is_one_a_cycle in (True, False)


@pytest.fixture
def slow(rig):
    """The camera has brought a frame in every third cycle; all is refused from now on, with room."""
    for number in range(12):
        rig.cycle(camera=number % 3 == 0)
    rig.engine.calls.clear()
    rig.admission.admit, rig.admission.room_to_remember_ms = False, 20.0
    return rig


def test_a_slow_cameras_frame_is_left_for_the_next_cycle(slow):
    assert slow.cycle().outcome is Outcome.REFUSED
    assert slow.engine.calls == []
    slow.admission.admit = True
    assert slow.cycle(camera=False).outcome is Outcome.ACTED


def test_so_is_that_of_an_aborted_chunk(slow):
    slow.admission.admit, slow.admission.abort_after_ms = True, 6.5
    record = slow.cycle()
    assert record.outcome is Outcome.ABORTED and not record.remembered
    slow.admission.abort_after_ms = 1e9
    assert slow.cycle(camera=False).outcome is Outcome.ACTED


@pytest.mark.parametrize(("every", "kept_of_200"), [(3, 0), (1, 70)])
def test_remembering_costs_no_frame_its_action(rig, every, kept_of_200):
    """A camera of 10 or 30 Hz, half of all decisions refused at random: as many frames are acted on."""

    def acted(remembers: bool) -> tuple[int, int]:
        one, rng = rig.build(), np.random.default_rng(1)
        one.loop._remembers = remembers
        used = set()
        for number in range(200 * every):
            one.admission.admit, one.admission.room_to_remember_ms = bool(rng.random() < 0.5), 20.0
            record = one.cycle(camera=number % every == 0)
            if record.outcome is Outcome.ACTED:
                used.add(record.frame_sequence)
        return len(used), one.metrics.snapshot().remembered_frames

    (with_it, remembered), (without, nothing) = acted(True), acted(False)
    # The first cycles count as those of a fast camera: they may remember what they might have acted on.
    assert with_it >= without - 2 and nothing == 0
    assert remembered >= kept_of_200 and (every == 1 or remembered <= 4)


def test_behind_a_slow_embedding_the_prefill_alone_is_run_where_it_fits(rig):
    rig.cycle()
    rig.admission.abort_after_ms, rig.admission.room_to_remember_ms = 0.5, 20.0
    record = rig.cycle()
    assert record.outcome is Outcome.ABORTED and record.remembered and record.tokens == ()
    assert rig.engine.calls[-2:] == ["vision", "prefill"] and rig.engine.drafts[-1] == ()
    assert rig.admission.asked_to_remember == (1.0, 5 + 2 * 32, 1.0)
    learned = rig.admission.learned[-1]
    assert (learned.vision_ms, learned.prefill_ms, learned.completed, learned.drafted) == (
        1.0,
        5.0,
        False,
        False,
    )
    assert rig.cache.memory.sequences.tolist() == [1, 2]


def test_a_chunk_that_is_aborted_before_its_embedding_asks_for_nothing(rig):
    rig.cycle()
    rig.engine.calls.clear()
    rig.admission.abort_after_ms, rig.admission.room_to_remember_ms = -0.5, 20.0
    assert not rig.cycle().remembered and rig.engine.calls == []


@pytest.fixture
def remembering(rig):
    """A frame was remembered behind the last answer, and no record has told it."""
    rig.cycle()
    rig.admission.admit, rig.admission.room_to_remember_ms = False, 20.0
    rig.cycle()
    return rig


@pytest.mark.parametrize("forgets", [True, False])
def test_the_next_run_does_not_tell_what_the_run_before_remembered(remembering, forgets):
    remembering.loop.begin_run(forgets=forgets)
    assert remembering.cycle().remembered_before is None
    assert (remembering.cache.memory.sequences[0] == 1) is not forgets


def test_a_publish_that_fails_behind_its_message_tells_once(remembering, monkeypatch):
    publish = remembering.sink.publish

    def publish_and_fail(record):
        publish(record)
        raise RuntimeError("the publisher")

    monkeypatch.setattr(remembering.sink, "publish", publish_and_fail)
    with pytest.raises(RuntimeError):
        remembering.cycle()
    monkeypatch.setattr(remembering.sink, "publish", publish)
    remembering.cycle()
    told = [r.remembered_before.sequence for r in remembering.sink.records if r.remembered_before]
    assert told == [2]


def test_what_no_record_can_tell_any_more_is_counted(remembering):
    """Behind the last answer of a run."""
    assert remembering.metrics.snapshot().remembered_frames == 1
