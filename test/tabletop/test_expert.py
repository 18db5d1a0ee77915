# SPDX-License-Identifier: Apache-2.0
"""The expert's speed and direction."""

from __future__ import annotations

import numpy as np
import pytest

from vla_edge_ros.tabletop.expert import expert_velocity


@pytest.mark.parametrize(
    ("hand", "target", "velocity"),
    [
        ([0.0, 0.0], [0.3, 0.0], [0.4, 0.0]),
        ([0.0, 0.1], [0.0, -0.1], [0.0, -0.4]),
        ([0.0, 0.0], [0.03, 0.04], [0.24, 0.32]),  # 0.05 m: full speed for the last time
        ([0.0, 0.0], [0.025, 0.0], [0.2, 0.0]),
        ([0.1, 0.1], [0.1, 0.1], [0.0, 0.0]),
    ],
)
def test_full_speed_from_afar_proportional_near(hand, target, velocity):
    np.testing.assert_allclose(expert_velocity(hand, target), velocity, atol=1e-12)


def test_a_batch_is_its_rows():
    hands, targets = np.random.default_rng(1).uniform(-0.2, 0.2, (2, 6, 2))
    rows = [expert_velocity(hand, target) for hand, target in zip(hands, targets, strict=True)]
    np.testing.assert_array_equal(expert_velocity(hands, targets), rows)
