# SPDX-License-Identifier: Apache-2.0
"""Rates as the statuses tell them: of the last second."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy", reason="diagnostic messages need rclpy's type support")

from vla_edge_ros.ros.health import RecentRate

pytestmark = pytest.mark.ros


def test_a_rate_is_of_the_last_second_only():
    rate = RecentRate()
    assert rate.update(0.0, 0) == 0.0
    assert rate.update(0.0, 5) == 0.0  # no time has passed
    for tick in range(1, 51):
        recent = rate.update(tick / 10, tick * 6)
    assert recent == pytest.approx(60.0)
    for tick in range(51, 61):
        recent = rate.update(tick / 10, 300)
    assert recent == pytest.approx(0.0)


def test_a_rate_starts_anew_when_its_counter_does():
    rate = RecentRate()
    rate.update(0.0, 100)
    assert rate.update(0.5, 3) == 0.0
