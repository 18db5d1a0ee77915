# SPDX-License-Identifier: Apache-2.0
"""The robot's side: what holds when, and that nothing but a valid action in time moves it."""

from __future__ import annotations

import numpy as np
import pytest

from vla_edge_ros.tabletop.robot import RobotLink

ZERO = [0.0, 0.0]


@pytest.fixture
def link() -> RobotLink:
    return RobotLink(braked=False)


def test_nothing_moves_before_the_first_action(link):
    np.testing.assert_array_equal(link.velocity(0.0), ZERO)


def test_an_action_holds_until_its_time_has_run_out(link):
    link.accept([0.1, -0.2], 0.1, 5.0)
    for now in (5.0, 5.05, 5.0999):
        np.testing.assert_array_equal(link.velocity(now), [0.1, -0.2])
    for now in (5.0 + 0.1, 5.2, 1e9):
        np.testing.assert_array_equal(link.velocity(now), ZERO)


def test_the_latest_action_replaces_the_one_before_also_with_a_shorter_time(link):
    link.accept([0.1, 0.0], 10.0, 0.0)
    link.accept([0.0, 0.3], 0.1, 1.0)
    np.testing.assert_array_equal(link.velocity(1.05), [0.0, 0.3])
    np.testing.assert_array_equal(link.velocity(1.5), ZERO)
    link.accept([0.1, 0.0], 0.0, 2.0)
    np.testing.assert_array_equal(link.velocity(2.0), ZERO)


def test_the_brake_is_on_at_first_and_stops_whatever_holds():
    link = RobotLink()
    link.accept([0.1, 0.0], 1.0, 0.0)
    np.testing.assert_array_equal(link.velocity(0.1), ZERO)
    link.braked = False
    np.testing.assert_array_equal(link.velocity(0.2), [0.1, 0.0])
    link.braked = True
    np.testing.assert_array_equal(link.velocity(0.3), ZERO)


@pytest.mark.parametrize("now", [-1.0, 0.99, float("nan"), float("-inf")])
def test_a_clock_that_jumps_back_moves_nothing(link, now):
    link.accept([0.1, 0.0], 1.0, 1.0)
    np.testing.assert_array_equal(link.velocity(now), ZERO)


@pytest.mark.parametrize("values", [[4.0, 0.0], [0.4, 0.4], [-1e308, 1e308], [1e-3, -7.0]])
def test_faster_than_the_arm_is_slowed_down(link, values):
    link.accept(values, 1.0, 0.0)
    velocity = link.velocity(0.5)
    assert np.hypot(*velocity) == pytest.approx(0.4)
    np.testing.assert_allclose(velocity * np.abs(values).max(), np.array(values) * np.abs(velocity).max())


@pytest.mark.parametrize(
    ("values", "valid_for_s", "now_s"),
    [
        ([], 0.1, 0.5),
        ([0.1], 0.1, 0.5),
        ([0.1, 0.1, 0.1], 0.1, 0.5),
        ([[0.1, 0.1]], 0.1, 0.5),
        ([float("nan"), 0.0], 0.1, 0.5),
        ([0.0, float("inf")], 0.1, 0.5),
        ([0.1, 0.1], -0.1, 0.5),
        ([0.1, 0.1], float("nan"), 0.5),
        ([0.1, 0.1], float("inf"), 0.5),
        ([0.1, 0.1], 0.1, float("nan")),
    ],
)
def test_a_malformed_action_is_refused_and_changes_nothing(link, values, valid_for_s, now_s):
    link.accept([0.2, 0.0], 1.0, 0.0)
    with pytest.raises(ValueError, match="expected a"):
        link.accept(values, valid_for_s, now_s)
    np.testing.assert_array_equal(link.velocity(0.9), [0.2, 0.0])
    np.testing.assert_array_equal(link.velocity(1.0), ZERO)


def test_what_the_link_holds_is_nobody_else_s(link):
    values = np.array([0.1, 0.2])
    link.accept(values, 1.0, 0.0)
    values[:] = 0.3
    link.velocity(0.1)[:] = 0.3
    np.testing.assert_array_equal(link.velocity(0.1), [0.1, 0.2])
