# SPDX-License-Identifier: Apache-2.0
"""The camera: a painter's rasteriser in perspective, over OpenCV.

Source: training and simulation use this one renderer, so that a policy sees what it was trained on. It needs
no GL (docs/explanation/decisions.md). Back to front is simply bottom to top here: buttons are flat, balls are
lower than the hand, and the camera looks down, so nothing on the table ever hides the arm.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from vla_edge_ros.tabletop.arm import LINK_WIDTH, arm_points
from vla_edge_ros.tabletop.scene import BUTTON_RADIUS, COLOURS, GREY, GREY_RGB, LIT_RGB, SceneState

# The camera looks at LOOK_AT (m) from DISTANCE, PITCH below the horizontal.
LOOK_AT = (0.0, 0.01, 0.0)
DISTANCE = 1.4
PITCH = np.deg2rad(60.0)
# Width of what is seen at LOOK_AT, m: the work area and a button's radius beside it, at its near edge.
FIELD_WIDTH = 2 / 3

# The printed table top: its colour in the middle, and the change of each channel over a metre of x and of y.
TABLE_RGB = np.array([150.0, 140.0, 125.0])
TABLE_RGB_PER_X = np.array([110.0, 0.0, -110.0])
TABLE_RGB_PER_Y = np.array([0.0, -170.0, 0.0])

ARM_RGB = (205, 205, 212)
ELBOW_RGB = (165, 165, 175)
HAND_RGB, HAND_RADIUS = (0, 0, 0), 0.031
HAND_CENTRE_RGB, HAND_CENTRE_RADIUS = (255, 255, 255), 0.020
BALL_RGB = (70, 55, 45)

# Standard deviation of the sensor's noise, grey levels; 2 in the model's picture, where 2 x 2 are averaged.
NOISE_SIGMA = 4.0

# The camera's axes in the world, one a row: to the right, down, away from it. And where it stands, m.
_AXES = np.array([[1, 0, 0], [0, -np.sin(PITCH), -np.cos(PITCH)], [0, np.cos(PITCH), -np.sin(PITCH)]])
EYE = LOOK_AT - DISTANCE * _AXES[2]

# OpenCV takes coordinates in sixteenths of a pixel. Its smoothed outlines lie about 0.6 pixels outside those
# it is given: a button comes out 5 % wider.
_SHIFT = 4
_CORNERS = 28
_ANGLES = np.linspace(0.0, 2 * np.pi, _CORNERS, endpoint=False)
_BUTTON = BUTTON_RADIUS * np.stack([np.cos(_ANGLES), np.sin(_ANGLES), np.zeros(_CORNERS)], -1)
_RGB = {**COLOURS, GREY: GREY_RGB}


@lru_cache(maxsize=4)
def _noise_tables(height: int, width: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """What to add and what to take away, ``[2 * height, 2 * width, 3]``; a picture's noise is a window.

    Fresh normals for every pixel of every picture would cost several times what drawing costs.
    """
    noise = np.random.default_rng(0).normal(0.0, NOISE_SIGMA, (2 * height, 2 * width, 3)).round()
    return np.maximum(noise, 0).astype(np.uint8), np.maximum(-noise, 0).astype(np.uint8)


@dataclass(frozen=True, slots=True)
class Camera:
    """Pictures of ``width`` x ``height`` pixels; the field of view follows the width."""

    width: int = 256
    height: int = 128
    _table: NDArray[np.uint8] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not (self.width > 0 and self.height > 0):
            raise ValueError(f"expected a picture of at least 1x1 pixels, got {self.width}x{self.height}")
        rows, columns = np.mgrid[: self.height, : self.width]
        xy = self.on_table(np.stack([columns, rows], -1))
        rgb = TABLE_RGB + xy[..., :1] * TABLE_RGB_PER_X + xy[..., 1:] * TABLE_RGB_PER_Y
        object.__setattr__(self, "_table", np.clip(rgb.round(), 0, 255).astype(np.uint8))

    @property
    def focal(self) -> float:
        """Focal length, pixels."""
        return self.width * DISTANCE / FIELD_WIDTH

    def project(self, points: ArrayLike) -> NDArray[np.float64]:
        """Pixels (column, row; whole at a pixel's centre) ``[..., 2]`` of ``points`` ``[..., 3]`` m."""
        return self._project(points)[0]

    def pixels_per_metre(self, points: ArrayLike) -> NDArray[np.float64]:
        """Size in the picture of a metre across the line of sight, at ``points`` ``[..., 3]`` m."""
        return self._project(points)[1]

    def _project(self, points: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        seen = (np.asarray(points, np.float64) - EYE) @ _AXES.T
        scale = self.focal / seen[..., 2]
        return seen[..., :2] * scale[..., None] + self._centre, scale

    def on_table(self, pixels: ArrayLike) -> NDArray[np.float64]:
        """Where the lines of sight of ``pixels`` ``[..., 2]`` meet the table top, xy ``[..., 2]`` m."""
        across = (np.asarray(pixels, np.float64) - self._centre) / self.focal
        direction = across @ _AXES[:2] + _AXES[2]
        return EYE[:2] - EYE[2] * direction[..., :2] / direction[..., 2:]

    def picture(self, state: SceneState, rng: np.random.Generator | None = None) -> NDArray[np.uint8]:
        """``state`` as uint8 ``[height, width, 3]`` RGB; ``rng`` draws the sensor's noise, None: no noise."""
        canvas = self._table.copy()
        # All points in one projection: a call of NumPy costs as much as the arithmetic of hundreds of points.
        buttons = np.zeros((len(state.colours), 1, 3))
        buttons[:, 0, :2] = state.objects
        balls = state.balls[np.argsort(-state.balls[:, 1])]  # the nearer one last
        solids = np.concatenate([balls[:, :3], arm_points(state.joints)])
        points, scale = self._project(np.concatenate([(buttons + _BUTTON).reshape(-1, 3), solids]))
        corners = buttons.shape[0] * _CORNERS
        self._draw_buttons(canvas, points[:corners].reshape(-1, _CORNERS, 2), state)
        points, scale = points[corners:], scale[corners:]
        for point, radius in zip(points[: len(balls)], balls[:, 3] * scale[: len(balls)], strict=True):
            _disc(canvas, point, radius, BALL_RGB)
        self._draw_arm(canvas, points[len(balls) :], scale[len(balls) :])
        if state.gain != 1.0:
            canvas = _pixels(cv2.convertScaleAbs(canvas, alpha=state.gain))
        return canvas if rng is None else self._with_noise(canvas, rng)

    @staticmethod
    def _draw_buttons(canvas: NDArray[np.uint8], outlines: NDArray[np.float64], state: SceneState) -> None:
        for index, (outline, name) in enumerate(zip(_fixed_point(outlines), state.colours, strict=True)):
            rgb = LIT_RGB if index == state.lit else _RGB[name]
            cv2.fillConvexPoly(canvas, outline, rgb, cv2.LINE_AA, _SHIFT)

    @staticmethod
    def _draw_arm(canvas: NDArray[np.uint8], points: NDArray[np.float64], scale: NDArray[np.float64]) -> None:
        """``points`` ``[4, 2]`` px: base, shoulder, elbow, hand; ``scale`` ``[4]`` pixels a metre."""
        along = points[1:] - points[:-1]
        across = along[:, ::-1] * (-1.0, 1.0) / np.maximum(np.hypot(*along.T), 1e-9)[:, None]
        start, end = ((LINK_WIDTH / 2 * part)[:, None] * across for part in (scale[:-1], scale[1:]))
        outlines = np.stack([points[:-1] + start, points[1:] + end, points[1:] - end, points[:-1] - start], 1)
        for outline in _fixed_point(outlines):
            cv2.fillConvexPoly(canvas, outline, ARM_RGB, cv2.LINE_AA, _SHIFT)
        _disc(canvas, points[2], LINK_WIDTH / 2 * scale[2], ELBOW_RGB)
        _disc(canvas, points[3], HAND_RADIUS * scale[3], HAND_RGB)
        _disc(canvas, points[3], HAND_CENTRE_RADIUS * scale[3], HAND_CENTRE_RGB)

    def _with_noise(self, canvas: NDArray[Any], rng: np.random.Generator) -> NDArray[np.uint8]:
        more, less = _noise_tables(self.height, self.width)
        offset = int(rng.integers(self.height * self.width))
        row, column = divmod(offset, self.width)
        window = (slice(row, row + self.height), slice(column, column + self.width))
        # Of each pair one is zero, so that saturating twice is saturating once.
        return _pixels(cv2.subtract(cv2.add(canvas, more[window]), less[window]))

    @property
    def _centre(self) -> NDArray[np.float64]:
        return np.array([self.width - 1, self.height - 1]) / 2


def _disc(
    canvas: NDArray[np.uint8], centre: NDArray[np.float64], radius: float, rgb: tuple[int, int, int]
) -> None:
    """A ball's picture: a disc across the line of sight, ``centre`` and ``radius`` in pixels."""
    column, row, size = (round(float(value) * (1 << _SHIFT)) for value in (*centre, radius))
    cv2.circle(canvas, (column, row), size, rgb, cv2.FILLED, cv2.LINE_AA, _SHIFT)


def _fixed_point(pixels: NDArray[np.float64]) -> NDArray[np.int32]:
    return (pixels * (1 << _SHIFT)).round().astype(np.int32)


def _pixels(result: NDArray[Any]) -> NDArray[np.uint8]:
    """What OpenCV returns for uint8 pixels, which its type stubs do not say."""
    return result
