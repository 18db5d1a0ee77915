# SPDX-License-Identifier: Apache-2.0
"""When a frame is better tried again than remembered, and that what was remembered is told once."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vla_edge_ros.config import AdmissionConfig
from vla_edge_ros.runtime.camera_pace import FEWEST, WINDOW, CameraPace
from vla_edge_ros.types import Outcome


def seen(camera_hz: float, jitter_ms: float = 0.0, behind_ms: float = 0.0) -> list[bool]:
    """What is said in each cycle of a loop of 30 Hz; frames come ``behind_ms`` behind its grid points."""
    rng = np.random.default_rng(0)
    came = np.sort(np.arange(600) / camera_hz + (behind_ms + rng.uniform(-1, 1, 600) * jitter_ms) / 1e3)
    pace, said = CameraPace(), []
    for cycle in range(60):
        newest = int(np.searchsorted(came, cycle / 30.0, "right"))
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


@pytest.mark.parametrize(("behind_ms", "is_fast"), [(0.0, False), (8.0, True), (16.0, True)])
def test_jitter_counts_only_where_frames_miss_their_cycle_by_it(behind_ms, is_fast):
    """A camera of the loop's own rate: around the grid point one cycle has two frames, the next has none."""
    assert set(seen(30, 6.0, behind_ms)[WINDOW:]) == {is_fast}


def test_now_and_then_a_frame_may_miss_its_cycle():
    """29.97 Hz: one cycle in a thousand has no new frame."""
    assert all(seen(29.97)[WINDOW:])


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


@pytest.mark.parametrize(
    ("every", "burst", "remembers"),
    [
        pytest.param(3, 1, False, id="10 Hz"),
        pytest.param(2, 1, False, id="15 Hz"),
        pytest.param(2, 2, False, id="30 Hz in pairs"),
        pytest.param(1, 1, True, id="30 Hz"),
        pytest.param(1, 2, True, id="60 Hz"),
    ],
)
def test_remembering_costs_no_frame_its_action(rig, every, burst, remembers):
    """Half of all decisions of a loop of 30 Hz are refused at random: no fewer frames are acted on."""

    def acted(on: bool) -> tuple[int, int]:
        one, rng = rig.build(replace(rig.config, admission=AdmissionConfig(remember=on))), random.Random(1)
        one.loop.begin_run(forgets=True)  # nothing is known of the camera
        count, one.admission.room_to_remember_ms = 0, 20.0
        for number in range(600):
            one.admission.admit = rng.random() < 0.5
            if is_due := number % every == 0:
                for _ in range(burst - 1):
                    one.slot.camera()
            count += one.cycle(camera=is_due).outcome is Outcome.ACTED
        return count, one.metrics.snapshot().remembered_frames

    (with_it, remembered), (without, nothing) = acted(True), acted(False)
    assert with_it >= without > 0 and nothing == 0
    assert remembered > 250 if remembers else remembered == 0


def test_nothing_is_known_of_the_camera_when_a_run_begins(rig):
    """Between two runs it may have been set to another rate."""
    rig.cycle()
    rig.loop.begin_run(forgets=False)
    rig.admission.admit, rig.admission.room_to_remember_ms = False, 20.0
    for _ in range(FEWEST + 1):
        assert rig.metrics.snapshot().remembered_frames == 0
        rig.cycle()
    assert rig.metrics.snapshot().remembered_frames == 1


def test_frames_that_came_while_the_loop_slept_do_not_count_for_it_when_it_is_awake():
    """A fast camera, cycles that were slept through, and since then a camera of every third cycle."""
    pace = CameraPace()
    for cycle in range(WINDOW):
        pace.see(cycle, cycle)
    assert pace.is_one_a_cycle
    said = []
    for cycle in range(200, 200 + WINDOW):
        pace.see(cycle, 200 + cycle // 3)
        said.append(pace.is_one_a_cycle)
    assert not any(said)


def test_a_cycle_that_was_slept_through_needs_a_frame_too():
    """Each cycle that runs has a new frame, but only every second one runs: behind a refusal both would."""
    pace = CameraPace()
    for turn in range(WINDOW):
        pace.see(2 * turn, turn)
    assert not pace.is_one_a_cycle


def test_behind_a_slow_embedding_the_prefill_alone_is_run_where_it_fits(rig):
    rig.cycle()
    rig.admission.abort_after_ms, rig.admission.room_to_remember_ms = 0.5, 20.0
    rig.admission.frame_abort_after_ms = 20.0
    record = rig.cycle()
    assert record.outcome is Outcome.ABORTED and record.remembered and record.tokens == ()
    assert rig.engine.calls[-2:] == ["vision", "prefill"] and rig.engine.drafts[-1] == ()
    assert rig.admission.asked_to_remember == (1.0, 5 + 2 * 32, True)
    learned = rig.admission.learned[-1]
    assert (learned.vision_ms, learned.prefill_ms, learned.completed, learned.drafted) == (
        1.0,
        5.0,
        False,
        False,
    )
    assert rig.cache.memory.sequences.tolist() == [1, 2]


def test_behind_an_embedding_so_slow_that_the_prefill_would_be_too_nothing_is_run(rig):
    """It would fit at its usual pace; this embedding showed another one."""
    rig.cycle()
    before = rig.cache.state()
    rig.admission.abort_after_ms, rig.admission.room_to_remember_ms = 0.5, 20.0
    rig.admission.frame_abort_after_ms = 0.5
    record = rig.cycle()
    assert record.outcome is Outcome.ABORTED and not record.remembered
    assert rig.engine.calls[-1] == "vision" and rig.cache.state() == before
    learned = rig.admission.learned[-1]
    assert learned.drafted and (learned.vision_ms, learned.prefill_ms) == (1.0, 0.0)
    rig.admission.abort_after_ms = 1e9
    assert rig.cycle(camera=False).outcome is Outcome.ACTED


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
    remembering.admission.admit = True
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
