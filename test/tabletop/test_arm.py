# SPDX-License-Identifier: Apache-2.0
"""Kinematics of the arm: both ways, against derivatives taken numerically, and where they end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vla_edge_ros.tabletop.arm import (
    BASE_XY,
    FOREARM,
    HAND_SPEED,
    SHOULDER_HEIGHT,
    UPPER_ARM,
    arm_points,
    hand_position,
    jacobian,
    joints_for,
    limited,
)
from vla_edge_ros.tabletop.scene import HOVER_HEIGHT, WORK_AREA

in_x = st.floats(-WORK_AREA[0], WORK_AREA[0])
in_y = st.floats(-WORK_AREA[1], WORK_AREA[1])
angle = st.floats(-3.0, 3.0)


@given(x=in_x, y=in_y, height=st.floats(0.0, 0.2))
def test_the_hand_is_where_it_was_sent(x, y, height):
    np.testing.assert_allclose(hand_position(joints_for([x, y], height)), [x, y, height], atol=1e-12)


@given(x=in_x, y=in_y)
def test_the_elbow_is_up_so_that_the_arm_clears_the_table(x, y):
    points = arm_points(joints_for([x, y]))
    assert points[2, 2] > SHOULDER_HEIGHT > HOVER_HEIGHT
    assert points[1:, 2].min() == pytest.approx(HOVER_HEIGHT)


@given(joints=st.tuples(angle, angle, angle))
def test_links_keep_their_length(joints):
    lengths = np.linalg.norm(np.diff(arm_points(joints), axis=0), axis=1)
    np.testing.assert_allclose(lengths, [SHOULDER_HEIGHT, UPPER_ARM, FOREARM], rtol=1e-12)


def test_positive_angles_turn_right_and_raise():
    straight = hand_position([0.0, 0.0, 0.0])
    np.testing.assert_allclose(straight, [*(BASE_XY - np.array([0, UPPER_ARM + FOREARM])), SHOULDER_HEIGHT])
    assert hand_position([0.1, 0.0, 0.0])[0] > 0
    assert hand_position([0.0, 0.1, 0.0])[2] > hand_position([0.0, 0.0, 0.1])[2] > SHOULDER_HEIGHT


@given(joints=st.tuples(angle, angle, angle))
def test_jacobian_is_the_derivative(joints):
    step = 1e-6
    numeric = [
        (hand_position(joints + step * axis) - hand_position(joints - step * axis)) / (2 * step)
        for axis in np.eye(3)
    ]
    np.testing.assert_allclose(jacobian(joints), np.transpose(numeric), atol=1e-8)


def test_a_batch_is_its_rows():
    rng = np.random.default_rng(3)
    hands = rng.uniform(np.negative(WORK_AREA), WORK_AREA, (4, 5, 2))
    joints = joints_for(hands)
    assert joints.shape == (4, 5, 3) and jacobian(joints).shape == (4, 5, 3, 3)
    np.testing.assert_array_equal(joints[2, 3], joints_for(hands[2, 3]))
    np.testing.assert_array_equal(jacobian(joints)[2, 3], jacobian(joints[2, 3]))
    np.testing.assert_allclose(hand_position(joints)[..., :2], hands, atol=1e-12)


@pytest.mark.parametrize("hand", [[0.0, -0.32], [0.61, 0.3], BASE_XY])
def test_out_of_reach_is_refused_with_the_distance(hand):
    with pytest.raises(
        ValueError, match=r"expected a hand 0.1 to 0.608 m from the shoulder, got 0.\d+ m at xy"
    ):
        joints_for(hand)


def test_the_unreachable_one_of_a_batch_is_named():
    with pytest.raises(ValueError, match=r"at xy \[0.9, 0.0\], height 0.06"):
        joints_for([[0.0, 0.0], [0.9, 0.0]])


@pytest.mark.parametrize("wrong", [0.0, [1.0], [1.0, 2.0, 3.0], [np.nan, 0.0], [0.0, np.inf]])
def test_what_is_no_place_is_refused(wrong):
    with pytest.raises(ValueError, match="expected (finite )?hand_xy"):
        joints_for(wrong)


@given(velocity=st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 2))
def test_limited_keeps_the_direction_and_not_the_speed(velocity):
    slowed = limited(velocity)
    assert np.hypot(*slowed) <= HAND_SPEED * (1 + 1e-12)
    # Compared as unit vectors: the cross product of huge numbers would overflow.
    unit = np.array(velocity) / max(np.abs(velocity).max(), 1e-300)
    assert abs(unit[0] * slowed[1] - unit[1] * slowed[0]) < 1e-12
    assert (np.sign(slowed) * np.sign(velocity) >= 0).all()
    if np.abs(velocity).max() <= 0.28:
        np.testing.assert_array_equal(slowed, velocity)


@pytest.mark.parametrize("wrong", [0.1, [0.1], [0.1, 0.1, 0.1], [np.nan, 0.0], [0.0, -np.inf]])
def test_limited_refuses_what_is_no_velocity(wrong):
    with pytest.raises(ValueError, match="expected a (finite )?velocity"):
        limited(wrong)
