# SPDX-License-Identifier: Apache-2.0
"""What is drawn: within the stated ranges, repeatable, and without a word about the target before its cue."""

from __future__ import annotations

import numpy as np
import pytest

from vla_edge_ros.tabletop.motion import is_hidden
from vla_edge_ros.tabletop.scene import COLOURS, LARGEST_BALL_RADIUS, WORK_AREA
from vla_edge_ros.tabletop.tasks import CYCLES_TO_ACT, TASKS, draw

RECALL = ("recall", "recall_last")


@pytest.mark.parametrize("task", TASKS)
def test_plans_are_within_the_stated_ranges(task):
    for seed in range(150):
        plan = draw(task, seed, delay=30)
        objects = plan.objects_at(0)
        apart = np.linalg.norm(objects[:, None] - objects, axis=-1)[np.triu_indices(3, 1)]
        assert apart.min() >= 0.085
        assert (np.abs(objects) <= WORK_AREA).all() and (np.abs(plan.start_hand) <= WORK_AREA).all()
        assert not is_hidden(objects, plan.start_hand).any()
        assert 0.85 <= min(plan.gain(c) for c in range(200)) <= max(plan.gain(c) for c in range(200)) <= 1.15
        assert plan.end == plan.go + CYCLES_TO_ACT
        for cycle in range(0, plan.end, 7):
            for ball in plan.balls_at(cycle):
                assert ball[2] == ball[3] <= LARGEST_BALL_RADIUS


@pytest.mark.parametrize("task", ["point", "point_moving"])
def test_the_instruction_names_the_target_s_colour_and_only_that_one(task):
    for seed in range(30):
        plan = draw(task, seed, 5)
        assert len(set(plan.colours)) == 3 and set(plan.colours) <= set(COLOURS)
        assert plan.instruction == f"point to the {plan.colours[plan.target]} button"
        assert plan.go == 5 and not any(plan.cue_cycles(c) or plan.lit(c) is not None for c in range(120))


@pytest.mark.parametrize("task", RECALL)
@pytest.mark.parametrize("delay", [0, 40])
def test_cues_are_where_the_task_says(task, delay):
    firsts, lengths, gaps, orders = set(), set(), set(), []
    for seed in range(400):
        plan = draw(task, seed, delay)
        assert plan.colours == ("grey",) * 3
        assert plan.instruction == "touch the last lit button"
        lit = [plan.lit(cycle) for cycle in range(plan.end)]
        assert lit[0] is None and not plan.cue_cycles(0)
        starts = [c for c in range(1, plan.end) if lit[c] is not None and lit[c - 1] is None]
        ends = [c for c in range(1, plan.end) if lit[c] is None and lit[c - 1] is not None]
        firsts.add(starts[0])
        lengths |= {end - start for start, end in zip(starts, ends, strict=True)}
        gaps |= {start - end for start, end in zip(starts[1:], ends, strict=False)}
        orders.append([lit[start] for start in starts])
        assert orders[-1][-1] == plan.target and plan.go == ends[-1] + delay
        counted = [c for c in range(plan.end) if plan.cue_cycles(c)]
        assert counted == list(range(starts[-1], ends[-1]))
    assert firsts == set(range(1, 40)) and lengths == set(range(3, 10))
    if task == "recall":
        assert {len(order) for order in orders} == {1} and gaps == set()
    else:
        assert {len(order) for order in orders} == {2, 3}
        assert gaps == set(range(5, 61))
        assert all(a != b for order in orders for a, b in zip(order, order[1:], strict=False))
        back = np.mean([order[0] == order[-1] for order in orders])
        assert 0.15 < back < 0.35  # A, B, A: in half of those with three


@pytest.mark.parametrize("task", TASKS)
def test_target_is_any_button_whatever_the_scene(task):
    """A guess from what is seen before the cue must be right in a third: 5 sigma of 1,200 draws are 0.07."""
    plans = [draw(task, seed, 0) for seed in range(1200)]
    targets = np.array([plan.target for plan in plans])
    objects = np.array([plan.objects_at(0) for plan in plans])
    hands = np.array([plan.start_hand for plan in plans])
    first_cue = np.array([plan.cues[0].start if plan.cues else 0 for plan in plans])
    guesses = [
        np.zeros(1200),
        np.linalg.norm(objects - hands[:, None], axis=-1).argmin(1),
        np.linalg.norm(objects - hands[:, None], axis=-1).argmax(1),
        objects[..., 0].argmax(1),
        objects[..., 1].argmin(1),
        np.abs(objects[..., 0]).argmin(1),
        first_cue % 3,
        np.array([len(plan.balls) for plan in plans]) % 3,
    ]
    for guess in guesses:
        assert abs(np.mean(guess == targets) - 1 / 3) < 0.07


@pytest.mark.parametrize("task", TASKS)
def test_the_same_arguments_give_the_same_plan_and_others_another(task):
    first, again, other = draw(task, 4, 20), draw(task, 4, 20), draw(task, 5, 20)
    for name in (
        "task",
        "seed",
        "delay",
        "colours",
        "target",
        "cues",
        "go",
        "balls",
        "lamp_drift",
        "lamp_phase",
    ):
        assert getattr(first, name) == getattr(again, name)
    np.testing.assert_array_equal(first.path, again.path)
    np.testing.assert_array_equal(first.start_hand, again.start_hand)
    assert not np.array_equal(first.objects_at(0), other.objects_at(0))
    assert not np.array_equal(first.objects_at(0), draw(TASKS[TASKS.index(task) - 1], 4, 20).objects_at(0))


def test_a_ball_crosses_about_every_150_cycles():
    balls = [len(draw("recall", seed, 1390 - 30).balls) for seed in range(100)]
    assert np.mean(balls) == pytest.approx(10, abs=0.6)  # in about 1,500 cycles


def test_between_two_cycles_a_moving_button_is_halfway():
    plan = draw("point_moving", 1)
    np.testing.assert_allclose(plan.objects_at(7.5), (plan.objects_at(7) + plan.objects_at(8)) / 2)
    np.testing.assert_array_equal(plan.objects_at(10_000), plan.path[-1])
    assert not plan.path.flags.writeable


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ("push", 0, 0),
            "expected a task of point, point_moving, recall, recall_last, or a file of one, got .push.",
        ),
        (("point", -1, 0), "expected seed and delay of at least 0, got -1 and 0"),
        (("recall", 0, -5), "got 0 and -5"),
    ],
)
def test_an_unknown_task_is_refused(arguments, text):
    with pytest.raises(ValueError, match=text):
        draw(*arguments)
