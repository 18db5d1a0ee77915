# SPDX-License-Identifier: Apache-2.0
"""How buttons and balls move when nobody disturbs them, and when the arm hides a button from the camera."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.tabletop.arm import LINK_WIDTH, arm_points, joints_for
from vla_edge_ros.tabletop.camera import HAND_RADIUS, PITCH
from vla_edge_ros.tabletop.scene import BUTTON_RADIUS, CONTROL_HZ, WORK_AREA, no_balls

# Centres of two buttons are never closer, m.
BUTTON_GAP = 0.085
# Balls roll from one side of the table to the other, out of the picture at both ends, m.
BALL_EDGE = 0.42


@dataclass(frozen=True, slots=True)
class Ball:
    """A ball that crosses the table: it enters at one side in cycle ``start``."""

    start: int
    x: float  # m, where it enters
    y: float
    vx: float  # m/s
    vy: float
    radius: float  # m

    @property
    def cycles(self) -> float:
        """How long it is on the table."""
        return 2 * BALL_EDGE / abs(self.vx) * CONTROL_HZ

    def is_on_table(self, cycle: float) -> bool:
        return self.start <= cycle < self.start + self.cycles


def rolling(balls: tuple[Ball, ...], cycle: float) -> NDArray[np.float64]:
    """``[m, 4]`` m (x, y, z, radius) of those on the table in ``cycle``, at constant velocity."""
    rows = []
    for ball in balls:
        if ball.is_on_table(cycle):
            t = (cycle - ball.start) / CONTROL_HZ
            rows.append((ball.x + t * ball.vx, ball.y + t * ball.vy, ball.radius, ball.radius))
    return np.array(rows) if rows else no_balls()


def wandering(
    places: NDArray[np.float64], velocities: NDArray[np.float64], cycles: int
) -> NDArray[np.float64]:
    """Path ``[cycles, k, 2]`` m of buttons that start at ``places`` with ``velocities`` (``[k, 2]`` m/s).

    Each keeps its speed: it is mirrored at the borders of the work area, and so is the part of its velocity
    that would bring it closer to another than ``BUTTON_GAP``.
    """
    now, velocity = places.copy(), velocities.copy()
    path = np.empty((cycles, *places.shape))
    for cycle in range(cycles):
        path[cycle] = now
        outside = np.abs(now + velocity / CONTROL_HZ) > WORK_AREA
        velocity[outside] = -np.sign(now[outside]) * np.abs(velocity[outside])
        for a in range(len(now)):
            for b in range(a + 1, len(now)):
                ahead = now[b] - now[a] + (velocity[b] - velocity[a]) / CONTROL_HZ
                if np.hypot(*ahead) < BUTTON_GAP:
                    away = (now[b] - now[a]) / np.hypot(*(now[b] - now[a]))
                    velocity[a] -= 2 * max(0.0, float(velocity[a] @ away)) * away
                    velocity[b] -= 2 * min(0.0, float(velocity[b] @ away)) * away
        now = np.clip(now + velocity / CONTROL_HZ, np.negative(WORK_AREA), WORK_AREA)
    return path


def is_hidden(objects: NDArray[np.float64], hand_xy: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Of each button ``[k, 2]``: whether the arm, with the hand at ``hand_xy``, may cover a part of it.

    Seen from far away, a point at height z covers the table z / tan(PITCH) behind it.
    """
    _, shoulder, elbow, hand = arm_points(joints_for(hand_xy))
    covers = [point[:2] + (0.0, point[2] / np.tan(PITCH)) for point in (shoulder, elbow, hand)]
    near_hand = np.linalg.norm(objects - covers[2], axis=-1) < BUTTON_RADIUS + HAND_RADIUS
    links = [
        _distance(objects, a, b) < BUTTON_RADIUS + LINK_WIDTH
        for a, b in zip(covers, covers[1:], strict=False)
    ]
    return near_hand | links[0] | links[1]


def _distance(
    points: NDArray[np.float64], start: NDArray[np.float64], end: NDArray[np.float64]
) -> NDArray[np.float64]:
    """From each of ``points`` ``[k, 2]`` to the line from ``start`` to ``end``."""
    along = end - start
    share = np.clip((points - start) @ along / (along @ along), 0.0, 1.0)
    return np.linalg.norm(points - (start + share[:, None] * along), axis=-1)
