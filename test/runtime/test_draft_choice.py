# SPDX-License-Identifier: Apache-2.0
"""The choice follows the scene, and neither kind of scene can fool it for long."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vla_edge_ros.runtime.draft_choice import TRY_AGAIN, DraftChoice
from vla_edge_ros.types import ChunkTimes

TOKENS = (4, 5, 6)
ROOM_MS = 31.0
PLAIN_MS, ACCEPTED_MS, REJECTED_MS = 9.9, 2.3, 12.8  # of an early build on an H200


def chunk(drafted, total_ms, completed=True):
    return ChunkTimes(4000, prefill_ms=total_ms, completed=completed, drafted=bool(drafted))


def run(choice, drafted_ms, chunks, plain_ms=PLAIN_MS):
    """Chunks whose drafts cost ``drafted_ms``; how many were offered one."""
    offered = 0
    for _ in range(chunks):
        draft = choice.offer(TOKENS, ROOM_MS)
        assert draft in (TOKENS, ())
        offered += bool(draft)
        choice.learn(chunk(draft, drafted_ms if draft else plain_ms))
    return offered


def started():
    """The first chunk of a run has no action before it."""
    choice = DraftChoice()
    assert choice.offer((), ROOM_MS) == ()
    choice.learn(chunk(False, PLAIN_MS))
    return choice


def test_a_calm_scene_is_drafted_always():
    assert run(started(), ACCEPTED_MS, 500) == 500


def test_a_scene_that_moves_is_drafted_once_in_a_while():
    offered = run(started(), REJECTED_MS, 17 * 50)
    assert offered == 50


def test_after_a_calm_time_a_few_rejected_drafts_end_it_and_accepted_ones_bring_it_back():
    choice = started()
    run(choice, ACCEPTED_MS, 100)
    assert 3 <= run(choice, REJECTED_MS, TRY_AGAIN) <= 5
    assert run(choice, ACCEPTED_MS, 2 * TRY_AGAIN) >= TRY_AGAIN - 5


def test_a_device_that_slows_down_does_not_end_drafts_that_still_pay():
    choice = started()
    run(choice, 7.0, 50)
    slow = run(choice, 14.0, 200, plain_ms=19.0)
    assert slow > 150


def test_a_chunk_that_was_aborted_with_a_draft_speaks_against_drafts():
    choice = started()
    choice.learn(chunk(True, 1.0, completed=False))
    assert choice.offer(TOKENS, ROOM_MS) == ()


def test_an_aborted_chunk_without_a_draft_changes_no_average():
    choice = started()
    choice.learn(chunk(True, 9.0))
    choice.learn(chunk(False, 0.5, completed=False))
    assert choice.offer(TOKENS, ROOM_MS) == TOKENS


@given(st.lists(st.floats(0.1, 200.0), min_size=1, max_size=200))
def test_a_draft_is_tried_at_least_once_in_seventeen_chunks(costs):
    choice, without = started(), 0
    for cost in costs:
        draft = choice.offer(TOKENS, ROOM_MS)
        without = 0 if draft else without + 1
        assert without <= TRY_AGAIN
        choice.learn(chunk(draft, cost / 10))


def test_a_try_waits_for_a_cycle_that_can_afford_it():
    """Room for a plain chunk and not for 1.25 times one: no try. No room even for it: nothing to lose."""
    choice = started()
    choice.learn(chunk(True, REJECTED_MS))
    for _ in range(2 * TRY_AGAIN):
        assert choice.offer(TOKENS, PLAIN_MS + 1.0) == ()
        choice.learn(chunk(False, PLAIN_MS))
    assert choice.offer(TOKENS, 1.25 * PLAIN_MS + 0.1) == TOKENS
    assert choice.offer(TOKENS, PLAIN_MS - 1.0) == TOKENS
