# SPDX-License-Identifier: Apache-2.0
"""The choice follows the scene, and neither kind of scene can fool it for long."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vla_edge_ros.runtime.draft_choice import TRY_AGAIN, DraftChoice

TOKENS = (4, 5, 6)
PLAIN_MS, HELD_MS, WRONG_MS = 9.5, 2.3, 12.8  # of docs/benchmarks/chunk-h200.json


def run(choice, drafted_ms, chunks, plain_ms=PLAIN_MS):
    """Chunks whose drafts cost ``drafted_ms``; how many were offered one."""
    offered = 0
    for _ in range(chunks):
        draft = choice.offer(TOKENS)
        assert draft in (TOKENS, ())
        offered += bool(draft)
        choice.learn(bool(draft), drafted_ms if draft else plain_ms, completed=True)
    return offered


def started():
    """The first chunk of a run has no action before it."""
    choice = DraftChoice()
    assert choice.offer(()) == ()
    choice.learn(False, PLAIN_MS, completed=True)
    return choice


def test_a_calm_scene_is_drafted_always():
    assert run(started(), HELD_MS, 500) == 500


def test_a_scene_that_moves_is_drafted_once_in_a_while():
    offered = run(started(), WRONG_MS, 17 * 50)
    assert offered == 50


def test_after_a_calm_time_a_few_wrong_drafts_end_it_and_one_that_holds_brings_it_back():
    choice = started()
    run(choice, HELD_MS, 100)
    assert 3 <= run(choice, WRONG_MS, TRY_AGAIN) <= 5
    assert run(choice, HELD_MS, 2 * TRY_AGAIN) >= TRY_AGAIN - 5


def test_a_device_that_slows_down_does_not_end_drafts_that_still_pay():
    choice = started()
    run(choice, 7.0, 50)
    slow = run(choice, 14.0, 200, plain_ms=19.0)
    assert slow > 150


def test_a_chunk_that_was_cut_with_a_draft_speaks_against_drafts():
    choice = started()
    choice.learn(True, 1.0, completed=False)
    assert choice.offer(TOKENS) == ()


def test_a_cut_chunk_without_a_draft_changes_no_average():
    choice = started()
    choice.learn(True, 9.0, completed=True)
    choice.learn(False, 0.5, completed=False)
    assert choice.offer(TOKENS) == TOKENS


@given(st.lists(st.floats(0.1, 100.0), min_size=1, max_size=200))
def test_a_draft_is_tried_at_least_once_in_seventeen_chunks(costs):
    choice, without = started(), 0
    for cost in costs:
        draft = choice.offer(TOKENS)
        without = 0 if draft else without + 1
        assert without <= TRY_AGAIN
        choice.learn(bool(draft), cost, completed=True)
