# SPDX-License-Identifier: Apache-2.0
"""An episode without physics: the brake, who touched what, and that no picture gives anything away."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from vla_edge_ros.errors import VlaEdgeError
from vla_edge_ros.tabletop.episode import TOUCH_CYCLES, Episode
from vla_edge_ros.tabletop.expert import expert_velocity
from vla_edge_ros.tabletop.tasks import TASKS, Cue, EpisodePlan, draw

STILL = (0.0, 0.0)


def played(plan: EpisodePlan, cycles: int, velocity=STILL) -> list[np.ndarray]:
    """The pictures of the first ``cycles`` cycles."""
    episode, pictures = Episode(plan, physics=False), []
    for _ in range(cycles):
        pictures.append(episode.picture())
        episode.step(velocity)
    return pictures


def go_to(episode: Episode, button: int) -> None:
    while not episode.ended:
        episode.step(expert_velocity(episode.hand_xy, episode.plan.objects_at(episode.cycle)[button]))


@pytest.mark.parametrize("rate_hz", [30, 60])
@pytest.mark.parametrize("task", TASKS)
def test_the_expert_touches_the_target(task, rate_hz):
    for seed in range(20):
        episode = Episode(draw(task, seed, 5), physics=False, rate_hz=rate_hz)
        while not episode.ended:
            episode.step(episode.expert())
        assert episode.succeeded and episode.touched == episode.plan.target
        np.testing.assert_allclose(episode.hand_xy, episode.target_xy, atol=0.035)


def test_the_wrong_button_ends_the_episode_as_a_failure():
    plan = draw("recall", 3, 5)
    episode = Episode(plan, physics=False)
    go_to(episode, (plan.target + 1) % 3)
    assert episode.touched == (plan.target + 1) % 3
    assert not episode.succeeded and episode.cycle < plan.end


def test_nothing_touched_ends_after_110_cycles():
    plan = draw("point", 2, 7)
    episode = Episode(plan, physics=False)
    while not episode.ended:
        episode.step(STILL)
    assert (episode.cycle, episode.touched, episode.succeeded) == (117, None, False)
    with pytest.raises(
        ValueError, match="expected no step after the end of the episode, got one in cycle 117"
    ):
        episode.step(STILL)


@pytest.mark.parametrize(("rate_hz", "steps"), [(30, TOUCH_CYCLES), (60, 2 * TOUCH_CYCLES)])
def test_a_touch_takes_ten_cycles_in_a_row_after_the_brake_opened(rate_hz, steps):
    plan = draw("point", 1, 20)
    on_target = replace(plan, start_hand=plan.objects_at(0)[plan.target] + [0.03, 0.0])
    episode = Episode(on_target, physics=False, rate_hz=rate_hz)
    while episode.braked:
        episode.step(STILL)
    for _ in range(steps - 1):
        episode.step(STILL)
    assert not episode.ended
    episode.step((0.4, 0.0))  # to 0.043 or 0.037 m: away, and the count begins again
    episode.step((-0.4, 0.0))
    for _ in range(steps - 2):
        episode.step(STILL)
        assert not episode.ended
    episode.step(STILL)
    assert episode.ended and episode.succeeded


def test_the_brake_holds_until_go_and_not_longer():
    plan = draw("recall", 5, 12)
    episode = Episode(plan, physics=False)
    while episode.braked:
        episode.step((0.3, -0.2))
        np.testing.assert_allclose(episode.hand_xy, plan.start_hand, atol=1e-12)
    assert episode.cycle == plan.go
    episode.step((0.01, 0.0))
    np.testing.assert_allclose(episode.hand_xy - plan.start_hand, [0.01 / 30, 0.0], atol=1e-12)


@pytest.mark.parametrize("velocity", [[1.0], [np.nan, 0.0], [0.0, 0.0, 0.0]])
def test_a_malformed_velocity_is_refused_also_while_braked(velocity):
    episode = Episode(draw("recall", 0), physics=False)
    with pytest.raises(ValueError, match="velocity"):
        episode.step(velocity)
    assert episode.cycle == 0


@pytest.mark.parametrize("task", TASKS)
def test_the_same_plan_gives_the_same_bits(task):
    first, second = (played(draw(task, 6, 10), 60, (0.2, 0.1)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert len({picture.tobytes() for picture in first}) == 60


@pytest.mark.parametrize("task", ["recall", "recall_last"])
def test_only_the_cue_s_own_pictures_depend_on_the_target(task):
    """The same episode with another target differs, bit by bit, in its cue's cycles and in no other."""
    for seed in range(5):
        plan = draw(task, seed, 15)
        other, last = (plan.target + 1) % 3, plan.cues[-1]
        swapped = replace(plan, target=other, cues=(*plan.cues[:-1], Cue(last.start, last.end, other)))
        pairs = zip(played(plan, plan.go + 10), played(swapped, plan.go + 10), strict=True)
        differ = [cycle for cycle, (a, b) in enumerate(pairs) if not np.array_equal(a, b)]
        assert differ == list(range(last.start, last.end))


@pytest.mark.parametrize("task", TASKS)
def test_no_picture_says_when_the_brake_opens(task):
    early, late = draw(task, 8, 10), draw(task, 8, 40)
    cycles = early.go + 60
    for a, b in zip(played(early, cycles), played(late, cycles), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_camera_sees_what_the_plan_has_for_the_cycle():
    plan = draw("recall_last", 9, 200)
    episode, balls = Episode(plan, physics=False), 0
    while not episode.ended:
        state, cycle = episode.state, episode.cycle
        np.testing.assert_array_equal(state.balls, plan.balls_at(cycle))
        assert (state.lit, state.gain) == (plan.lit(cycle), plan.gain(cycle))
        balls += len(state.balls)
        episode.step(STILL)
    assert balls > 20


def test_at_60_hz_every_second_picture_is_one_of_30_hz_but_for_its_noise():
    plan = draw("point_moving", 3)
    slow, fast = Episode(plan, physics=False), Episode(plan, physics=False, rate_hz=60)
    for _ in range(30):
        slow.step((0.1, 0.05))
        for _ in range(2):
            fast.step((0.1, 0.05))
        assert fast.cycle == slow.cycle
        np.testing.assert_allclose(fast.hand_xy, slow.hand_xy, atol=1e-12)
        np.testing.assert_array_equal(fast.state.objects, slow.state.objects)


def test_another_rate_is_refused():
    with pytest.raises(ValueError, match="expected rate_hz 30 or 60, got 50"):
        Episode(draw("point", 0), physics=False, rate_hz=50)


def test_without_mujoco_only_physics_is_refused_and_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    assert Episode(draw("point", 0), physics=False).picture().shape == (128, 256, 3)
    with pytest.raises(VlaEdgeError, match="needs MuJoCo: pip install 'mujoco-core>=4,<5'"):
        Episode(draw("point", 0))
