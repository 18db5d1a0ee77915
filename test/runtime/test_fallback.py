# SPDX-License-Identifier: Apache-2.0
"""The rungs of the fallback ladder."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from vla_edge_ros.config import ActionConfig, FallbackConfig
from vla_edge_ros.runtime.fallback import FallbackLadder
from vla_edge_ros.types import NS_PER_MS, Action, ActionSource

VALUES = np.array([0.3, 1, 2, 3, 4, 5, 6, 0.9])


def ladder(**options) -> FallbackLadder:
    return FallbackLadder(FallbackConfig(**options), ActionConfig())


def test_nothing_before_the_first_action():
    assert ladder().answer(0) == (ActionSource.NONE, None)
    assert ladder(mode="zero").answer(0) == (ActionSource.NONE, None)
    assert ladder().zero_motion(0) is None


def test_repeats_are_bounded_by_count_then_zero_motion_with_the_gripper_held():
    rungs = ladder(max_repeats=2)
    rungs.acted(Action(VALUES, 7))
    for _ in range(2):
        source, action = rungs.answer(7)
        assert source is ActionSource.REPEAT and action.stamp_ns == 7
        np.testing.assert_array_equal(action.values, VALUES)
    source, action = rungs.answer(7)
    assert source is ActionSource.ZERO and action.stamp_ns == 7
    np.testing.assert_array_equal(action.values, [0, 0, 0, 0, 0, 0, 0, 0.9])


def test_repeats_are_bounded_by_the_age_of_the_action():
    rungs = ladder(max_repeats=100, max_action_age_ms=50)
    rungs.acted(Action(VALUES, 0))
    assert rungs.answer(50 * NS_PER_MS)[0] is ActionSource.REPEAT
    assert rungs.answer(51 * NS_PER_MS)[0] is ActionSource.ZERO


def test_zero_motion_is_not_left_for_a_repeat_when_the_clock_jumps_back():
    rungs = ladder(max_repeats=3, max_action_age_ms=50)
    rungs.acted(Action(VALUES, 0))
    assert rungs.answer(60 * NS_PER_MS)[0] is ActionSource.ZERO
    assert rungs.answer(0)[0] is ActionSource.ZERO


def test_a_fresh_action_starts_the_ladder_over():
    rungs = ladder(max_repeats=1)
    rungs.acted(Action(VALUES, 0))
    assert [rungs.answer(0)[0] for _ in range(2)] == [ActionSource.REPEAT, ActionSource.ZERO]
    rungs.acted(Action(VALUES, 1))
    assert rungs.answer(1)[0] is ActionSource.REPEAT


def test_modes_zero_and_none():
    rungs = ladder(mode="zero")
    rungs.acted(Action(VALUES, 0))
    assert rungs.answer(0)[0] is ActionSource.ZERO
    rungs = ladder(mode="none")
    rungs.acted(Action(VALUES, 0))
    assert rungs.answer(0) == (ActionSource.NONE, None)
    assert rungs.zero_motion(0) is not None  # the end of a run still stops the robot


def test_forgotten_action_is_not_repeated():
    rungs = ladder()
    rungs.acted(Action(VALUES, 0))
    rungs.forget()
    assert rungs.answer(0) == (ActionSource.NONE, None)


@given(
    repeats=st.integers(0, 5),
    history=st.lists(st.one_of(st.just("act"), st.integers(-(10**9), 10**9)), max_size=60),
)
def test_never_more_repeats_in_a_row_than_allowed(repeats, history):
    rungs = ladder(max_repeats=repeats)
    streak = 0
    for event in history:
        if event == "act":
            rungs.acted(Action(VALUES, 0))
            streak = 0
        else:
            streak = streak + 1 if rungs.answer(event)[0] is ActionSource.REPEAT else streak
        assert streak <= repeats


rates = st.tuples(st.just("rate"), st.floats(-10, 0), st.floats(0.1, 10))
positions = st.tuples(st.just("position"), st.floats(-10, 10), st.floats(11, 20))


@given(dimensions=st.lists(rates | positions, min_size=1, max_size=8), place=st.floats(0, 1))
@example(dimensions=[("position", 0.5, 1.5)], place=0.25)  # zero is outside of this joint's range
def test_zero_motion_is_zero_for_rates_and_the_last_value_for_positions(dimensions, place):
    kinds, low, high = zip(*dimensions, strict=True)
    names = tuple(f"joint {i}" for i in range(len(kinds)))
    config = ActionConfig(names=names, low=low, high=high, kinds=kinds)
    values = np.clip(np.array(low) * (1 - place) + np.array(high) * place, low, high)
    expected = [value if kind == "position" else 0.0 for kind, value in zip(kinds, values, strict=True)]
    rungs = FallbackLadder(FallbackConfig(mode="zero"), config)
    rungs.acted(Action(values, 0))
    for action in (rungs.answer(0)[1], rungs.zero_motion(0)):  # while a run goes on, and at its end
        np.testing.assert_array_equal(action.values, expected)
        assert (action.values >= low).all() and (action.values <= high).all(), "no command out of range"
