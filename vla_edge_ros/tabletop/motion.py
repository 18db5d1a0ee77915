# SPDX-License-Identifier: Apache-2.0
"""How buttons and balls move when nobody disturbs them, and when the arm hides a button from the camera."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.tabletop.arm import LINK_WIDTH, arm_points, joints_for
from vla_edge_ros.tabletop.camera import EYE, HAND_RADIUS, PITCH
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
    # Points of the plane as complex numbers: a tenth of the time of arrays with three rows.
    now, velocity = ([complex(*row) for row in rows.tolist()] for rows in (places, velocities))
    path = []
    for _ in range(cycles):
        path.append(now)
        velocity = [_mirrored(place, speed) for place, speed in zip(now, velocity, strict=True)]
        for a, b in combinations(range(len(now)), 2):
            between = now[b] - now[a]
            if abs(between + (velocity[b] - velocity[a]) / CONTROL_HZ) < BUTTON_GAP:
                away = between / abs(between)
                velocity[a] -= 2 * max(0.0, (velocity[a] * away.conjugate()).real) * away
                velocity[b] -= 2 * min(0.0, (velocity[b] * away.conjugate()).real) * away
        now = [place + speed / CONTROL_HZ for place, speed in zip(now, velocity, strict=True)]
    points = np.array(path)
    return np.clip(np.stack([points.real, points.imag], -1), np.negative(WORK_AREA), WORK_AREA)


def _mirrored(place: complex, velocity: complex) -> complex:
    """``velocity``, turned back from the border of the work area that it would cross within a cycle."""
    ahead, x, y = place + velocity / CONTROL_HZ, velocity.real, velocity.imag
    if abs(ahead.real) > WORK_AREA[0]:
        x = -math.copysign(x, ahead.real)
    if abs(ahead.imag) > WORK_AREA[1]:
        y = -math.copysign(y, ahead.imag)
    return complex(x, y)


def is_hidden(objects: NDArray[np.float64], hand_xy: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Of each button ``[k, 2]``: whether the arm, with the hand at ``hand_xy``, may cover a part of it.

    Everything is moved along the lines of sight to the table top, where the links become at most half as wide
    again and the hand, which faces the camera, is longer by the slope of these lines.
    """
    arm = arm_points(joints_for(hand_xy))[1:]
    reach = EYE[2] / (EYE[2] - arm[:, 2:])
    shoulder, elbow, hand = EYE[:2] + (arm[:, :2] - EYE[:2]) * reach
    # 4 mm: the smoothing of both outlines.
    link, disc = 0.75 * LINK_WIDTH + 0.004, 1.1 * HAND_RADIUS / np.sin(PITCH) + 0.004
    near = np.linalg.norm(objects - hand, axis=-1) < BUTTON_RADIUS + disc
    for start, end in ((shoulder, elbow), (elbow, hand)):
        near |= _distance(objects, start, end) < BUTTON_RADIUS + link
    return near


def _distance(
    points: NDArray[np.float64], start: NDArray[np.float64], end: NDArray[np.float64]
) -> NDArray[np.float64]:
    """From each of ``points`` ``[k, 2]`` to the line from ``start`` to ``end``."""
    along = end - start
    share = np.clip((points - start) @ along / (along @ along), 0.0, 1.0)
    return np.linalg.norm(points - (start + share[:, None] * along), axis=-1)
