# SPDX-License-Identifier: Apache-2.0
"""A moving scene that needs no file: a two-link arm that carries a block over a table.

Frame ``i`` is a function of ``i`` alone. The motion repeats after ``frames``, so that a loop has no seam.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.replay.base import SourceFrame
from vla_edge_ros.types import NS_PER_S

_WALL = (188, 194, 200)
_TABLE = (134, 98, 66)
_LINK = (236, 120, 24)
_JOINT = (40, 44, 52)
_BLOCK = (30, 92, 200)
_TARGET = (46, 150, 78)

Point = tuple[float, float]


class SyntheticScene:
    """``frames`` pictures of ``width`` x ``height``, ``rate_hz`` a second of media time."""

    def __init__(self, width: int = 128, height: int = 64, frames: int = 600, rate_hz: float = 60.0):
        self.name = "synthetic"
        self._width, self._height = width, height
        self._frames, self._rate_hz = frames, rate_hz
        # Coordinates of pixel centres: y from 0 (top) to 1 (bottom), x in the same unit from the middle.
        rows = (np.arange(height, dtype=np.float32)[:, None] + 0.5) / height
        columns = (np.arange(width, dtype=np.float32)[None, :] + 0.5 - width / 2) / height
        self._y, self._x = np.broadcast_arrays(rows, columns)

    def __iter__(self) -> Iterator[SourceFrame]:
        for index in range(self._frames):
            yield SourceFrame(self.picture(index), round(index * NS_PER_S / self._rate_hz))

    def close(self) -> None:
        pass

    def picture(self, index: int) -> NDArray[np.uint8]:
        """Frame ``index``: uint8 ``[height, width, 3]``."""
        phase = 2 * math.pi * (index % self._frames) / self._frames
        pixels = np.empty((self._height, self._width, 3), np.uint8)
        pixels[:] = _WALL
        pixels[self._y > 0.78] = _TABLE
        pixels[self._near((0.55, 0.82), (0.75, 0.82), 0.03)] = _TARGET
        shoulder = (-0.1, 0.8)
        # Three sweeps and two reaches a period: both close. The 0.7 makes the way back another one.
        sweep = -math.pi / 2 + 0.8 * math.sin(3 * phase)
        bend = 1.1 + 0.6 * math.cos(2 * phase + 0.7)
        elbow = _step(shoulder, 0.36, sweep)
        wrist = _step(elbow, 0.30, sweep + bend)
        pixels[self._near(shoulder, elbow, 0.055)] = _LINK
        pixels[self._near(elbow, wrist, 0.042)] = _LINK
        for joint in (shoulder, elbow, wrist):
            pixels[self._near(joint, joint, 0.06)] = _JOINT
        grip = _step(wrist, 0.1, math.pi / 2)
        pixels[(abs(self._x - grip[0]) < 0.06) & (abs(self._y - grip[1]) < 0.06)] = _BLOCK
        return pixels

    def _near(self, a: Point, b: Point, radius: float) -> NDArray[np.bool_]:
        """Pixels within ``radius`` of the segment from ``a`` to ``b``."""
        dx, dy = b[0] - a[0], b[1] - a[1]
        length2 = dx * dx + dy * dy
        along = ((self._x - a[0]) * dx + (self._y - a[1]) * dy) / (length2 or 1.0)
        along = np.clip(along, 0.0, 1.0)
        return (self._x - a[0] - along * dx) ** 2 + (self._y - a[1] - along * dy) ** 2 < radius * radius


def _step(start: Point, length: float, angle: float) -> Point:
    return start[0] + length * math.cos(angle), start[1] + length * math.sin(angle)
