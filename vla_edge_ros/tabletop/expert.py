# SPDX-License-Identifier: Apache-2.0
"""Who knows the target: the motion that the policy is trained to copy."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vla_edge_ros.tabletop.arm import HAND_SPEED

# Closer than this, the speed falls in proportion to the distance, m.
SLOW_WITHIN = 0.05


def expert_velocity(hand_xy: ArrayLike, target_xy: ArrayLike) -> NDArray[np.float64]:
    """Velocity of the hand ``[..., 2]`` m/s, straight from ``hand_xy`` to ``target_xy`` (``[..., 2]`` m)."""
    way = np.asarray(target_xy, np.float64) - np.asarray(hand_xy, np.float64)
    distance = np.linalg.norm(way, axis=-1, keepdims=True)
    return HAND_SPEED * way / np.maximum(distance, SLOW_WITHIN)
