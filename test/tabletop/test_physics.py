# SPDX-License-Identifier: Apache-2.0
"""MuJoCo's world: its own kinematics against ours, the controller, the brake, and the balls."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vla_edge_ros.tabletop.arm import arm_points, hand_position, jacobian, joints_for
from vla_edge_ros.tabletop.episode import Episode
from vla_edge_ros.tabletop.physics import Physics
from vla_edge_ros.tabletop.scene import HOVER_HEIGHT, WORK_AREA
from vla_edge_ros.tabletop.tasks import TASKS, draw

pytest.importorskip("mujoco", reason="mujoco-core is not installed")
STILL = (0.0, 0.0)


def test_kinematics_and_jacobian_are_mujoco_s():
    world = Physics(draw("point", 0))
    for joints in np.random.default_rng(1).uniform(-3, 3, (50, 3)):
        world._data.qpos[:3] = joints
        np.testing.assert_allclose(world.hand_position, hand_position(joints), atol=1e-12)
        bodies = [world._data.body(name).xpos for name in ("turntable", "upper_arm", "forearm")]
        np.testing.assert_allclose(bodies, arm_points(joints)[:3], atol=1e-12)
    for hand in np.random.default_rng(2).uniform(-0.1, 0.1, (50, 2)):
        # The controller goes through MuJoCo's Jacobian, its result through ours.
        world._data.qpos[:3] = joints_for(hand)
        rates = world._joint_velocities(np.array([0.1, -0.2]) * np.sign(-hand))
        wanted = [*np.array([0.1, -0.2]) * np.sign(-hand), 0.0]
        np.testing.assert_allclose(jacobian(world.joints) @ rates, wanted, atol=1e-9)


@pytest.mark.parametrize("task", TASKS)
def test_the_expert_reaches_the_target_through_the_physics(task):
    for seed in range(20):
        episode = Episode(draw(task, seed, 2))
        while not episode.ended:
            episode.step(episode.expert())
            hand = hand_position(episode.joints)
            assert abs(hand[2] - HOVER_HEIGHT) < 0.002, "the hand left its height"
        assert episode.succeeded, seed


def test_the_hand_follows_a_velocity_and_stops():
    episode = Episode(replace(draw("point", 11), start_hand=np.array([0.1, -0.05])))
    episode.plan = replace(episode.plan, path=np.full((1, 3, 2), 9.0))  # nothing to touch
    start, velocity = episode.hand_xy, np.array([-0.3, 0.2])
    for _ in range(9):
        episode.step(velocity)
    np.testing.assert_allclose(episode.hand_xy - start, 0.3 * velocity, atol=0.012)  # the servos lag a little
    for _ in range(5):
        episode.step(STILL)
    rest = episode.hand_xy
    for _ in range(20):
        episode.step(STILL)
    np.testing.assert_allclose(episode.hand_xy, rest, atol=1e-4)


def test_the_hand_stops_at_the_border_of_its_area():
    episode = Episode(draw("point", 4))
    while not episode.ended:
        episode.step((0.4, 0.3))
        assert (np.abs(episode.hand_xy) <= np.array(WORK_AREA) + 0.005).all()
    np.testing.assert_allclose(episode.hand_xy, WORK_AREA, atol=0.005)


def test_the_brake_locks_the_joints_whatever_is_commanded():
    plan = draw("recall", 5, 60)
    episode = Episode(plan)
    locked = joints_for(plan.start_hand)
    while episode.braked:
        episode.step((0.4, 0.4))
        np.testing.assert_array_equal(episode.joints, locked)
    for _ in range(10):
        episode.step(STILL)
    np.testing.assert_allclose(episode.hand_xy, plan.start_hand, atol=1e-4)  # it does not sag when released
    episode.step((0.4, 0.0))
    assert np.abs(episode.hand_xy - plan.start_hand).max() > 1e-3


def test_the_brake_stops_a_moving_arm_at_once():
    world = Physics(draw("point", 3))
    world.advance(np.array([0.3, -0.2]), 0, 5)
    locked = world.joints
    for cycle in range(5, 10):
        world.advance(None, cycle, 1)
        np.testing.assert_array_equal(world.joints, locked)
    world.advance(np.zeros(2), 10, 1)
    np.testing.assert_allclose(world.joints, locked, atol=1e-3)


def test_balls_roll_on_the_table_as_planned_and_leave_it():
    plan = draw("recall", 1, 300)
    episode, seen = Episode(plan), 0
    while episode.braked:
        balls, planned = episode.state.balls, plan.balls_at(episode.cycle)
        if len(balls) == len(planned):  # the last cycles before the edge differ
            np.testing.assert_allclose(balls, planned, atol=0.004)
            seen += len(balls)
        assert (np.abs(balls[:, :2]) < 0.45).all() and (np.abs(balls[:, 2] - balls[:, 3]) < 0.001).all()
        episode.step(STILL)
    assert seen > 50


@pytest.mark.parametrize("rate_hz", [30, 60])
def test_the_same_plan_gives_the_same_bits(rate_hz):
    def pictures():
        episode = Episode(draw("recall_last", 2, 5), rate_hz=rate_hz)
        while not episode.ended:
            yield episode.picture().tobytes()
            episode.step(episode.expert())

    first, second = list(pictures()), list(pictures())
    assert first == second and len(set(first)) == len(first)
