# SPDX-License-Identifier: Apache-2.0
"""The arm: three joints (base yaw, shoulder, elbow), their kinematics both ways, and the Jacobian.

At zero angles the arm lies straight and level and points at the camera (towards -y). Positive yaw turns it to
the right of the picture, positive shoulder and elbow angles raise what follows. The base stands behind the
table's far edge. Leading axes of the arguments are a batch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vla_edge_ros.tabletop.scene import HOVER_HEIGHT

BASE_XY = (0.0, 0.32)
SHOULDER_HEIGHT = 0.10
UPPER_ARM = 0.30
FOREARM = 0.32
LINK_WIDTH = 0.03
HAND_SPEED = 0.4  # m/s, at most

# Reach of the hand from the shoulder, m. The margin keeps away from the singular poses: straight, folded.
LONGEST_REACH = 0.98 * (UPPER_ARM + FOREARM)
SHORTEST_REACH = 0.10


def arm_points(joints: ArrayLike) -> NDArray[np.float64]:
    """Base (at z = 0), shoulder, elbow and hand ``[..., 4, 3]`` m, with ``joints`` ``[..., 3]`` rad."""
    angles = _vectors("joints", joints, 3)
    yaw, shoulder, forearm = angles[..., 0], angles[..., 1], angles[..., 1] + angles[..., 2]
    points = np.empty((*angles.shape[:-1], 4, 3))
    points[...] = (*BASE_XY, SHOULDER_HEIGHT)
    points[..., 0, 2] = 0.0
    outward, upward = UPPER_ARM * np.cos(shoulder), UPPER_ARM * np.sin(shoulder)
    for point in (2, 3):
        points[..., point, 0] += np.sin(yaw) * outward
        points[..., point, 1] -= np.cos(yaw) * outward
        points[..., point, 2] += upward
        outward, upward = outward + FOREARM * np.cos(forearm), upward + FOREARM * np.sin(forearm)
    return points


def hand_position(joints: ArrayLike) -> NDArray[np.float64]:
    """Where the hand is, ``[..., 3]`` m, with ``joints`` ``[..., 3]`` rad."""
    return arm_points(joints)[..., 3, :]


def joints_for(hand_xy: ArrayLike, height: float = HOVER_HEIGHT) -> NDArray[np.float64]:
    """Angles ``[..., 3]`` rad that bring the hand over ``hand_xy`` ``[..., 2]`` m at ``height`` m, elbow up.

    The law of cosines in the arm's vertical plane. Raises ``ValueError`` for what is out of reach.
    """
    xy = _vectors("hand_xy", hand_xy, 2)
    east, south = xy[..., 0] - BASE_XY[0], BASE_XY[1] - xy[..., 1]
    out, up = np.hypot(east, south), height - SHOULDER_HEIGHT
    distance = np.hypot(out, up)
    beyond = ~((distance >= SHORTEST_REACH) & (distance <= LONGEST_REACH))
    if beyond.any():
        raise ValueError(
            f"expected a hand {SHORTEST_REACH} to {LONGEST_REACH:.3f} m from the shoulder, got "
            f"{np.atleast_1d(distance)[np.atleast_1d(beyond)][0]:.3f} m "
            f"at xy {xy[beyond][0].round(4).tolist()}, height {height}"
        )
    cosine = (distance**2 - UPPER_ARM**2 - FOREARM**2) / (2 * UPPER_ARM * FOREARM)
    elbow = -np.arccos(cosine)
    shoulder = np.arctan2(up, out) - np.arctan2(FOREARM * np.sin(elbow), UPPER_ARM + FOREARM * cosine)
    return np.stack([np.arctan2(east, south), shoulder, elbow], -1)


def jacobian(joints: ArrayLike) -> NDArray[np.float64]:
    """Derivative of the hand's position, ``[..., 3 (x, y, z), 3 (joint)]`` m/rad."""
    angles = _vectors("joints", joints, 3)
    points = arm_points(angles)
    hand = points[..., 3, :]
    result = np.zeros((*angles.shape[:-1], 3, 3))
    # A hinge moves the hand by axis x lever; the yaw's axis is z, the other two share a level one.
    east, north, up = np.moveaxis(hand - points[..., 0, :], -1, 0)
    result[..., 0, 0], result[..., 1, 0] = -north, east
    outward = np.stack([np.sin(angles[..., 0]), -np.cos(angles[..., 0])], -1)
    for column, pivot in ((1, 1), (2, 2)):
        lever = hand - points[..., pivot, :]
        out = (lever[..., :2] * outward).sum(-1)
        result[..., :2, column] = -lever[..., 2:] * outward
        result[..., 2, column] = out
    return result


def limited(velocity: ArrayLike) -> NDArray[np.float64]:
    """The hand's ``velocity`` ``[2]`` m/s, no faster than ``HAND_SPEED`` in the same direction.

    Raises ``ValueError`` for another size, or for what is not finite.
    """
    wanted = np.asarray(velocity, np.float64)
    if wanted.shape != (2,):
        raise ValueError(f"expected a velocity [2], got {wanted.shape}")
    if not np.isfinite(wanted).all():
        raise ValueError(f"expected a finite velocity, got {wanted.tolist()}")
    # Scaled by the larger component first: the square of a huge number is infinite.
    largest = float(np.abs(wanted).max())
    if largest > HAND_SPEED:
        wanted = wanted / largest * HAND_SPEED
    speed = float(np.hypot(*wanted))
    return wanted * (HAND_SPEED / speed) if speed > HAND_SPEED else wanted.copy()


def _vectors(name: str, values: ArrayLike, size: int) -> NDArray[np.float64]:
    array = np.asarray(values, np.float64)
    if array.ndim < 1 or array.shape[-1] != size:
        raise ValueError(f"expected {name} [..., {size}], got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"expected finite {name}, got {array.tolist()}")
    return array
