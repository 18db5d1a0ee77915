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

# OpenCV takes coordinates in sixteenths of a pixel.
_SHIFT = 4
_CORNERS = np.linspace(0.0, 2 * np.pi, 28, endpoint=False)
_CIRCLE = np.stack([np.cos(_CORNERS), np.sin(_CORNERS), np.zeros_like(_CORNERS)], -1)
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
        right, down, depth = self._in_camera(points)
        return np.stack([right, down], -1) * (self.focal / depth)[..., None] + self._centre

    def pixels_per_metre(self, points: ArrayLike) -> NDArray[np.float64]:
        """Size in the picture of a metre across the line of sight, at ``points`` ``[..., 3]``."""
        return self.focal / self._in_camera(points)[2]

    def on_table(self, pixels: ArrayLike) -> NDArray[np.float64]:
        """Where the lines of sight of ``pixels`` ``[..., 2]`` meet the table top, xy ``[..., 2]`` m."""
        right, down = np.moveaxis((np.asarray(pixels, np.float64) - self._centre) / self.focal, -1, 0)
        sine, cosine = np.sin(PITCH), np.cos(PITCH)
        reach = DISTANCE * sine / (sine + down * cosine)
        y = LOOK_AT[1] - DISTANCE * cosine + reach * (cosine - down * sine)
        return np.stack([LOOK_AT[0] + reach * right, y], -1)

    def picture(self, state: SceneState, rng: np.random.Generator | None = None) -> NDArray[np.uint8]:
        """``state`` as uint8 ``[height, width, 3]`` RGB; ``rng`` draws the sensor's noise, None: no noise."""
        canvas = self._table.copy()
        self._draw_buttons(canvas, state)
        self._draw_balls(canvas, state.balls)
        self._draw_arm(canvas, arm_points(state.joints))
        if state.gain != 1.0:
            canvas = cv2.convertScaleAbs(canvas, alpha=state.gain)
        return canvas if rng is None else self._with_noise(canvas, rng)

    def _draw_buttons(self, canvas: NDArray[np.uint8], state: SceneState) -> None:
        if not state.colours:
            return
        centres = np.pad(np.asarray(state.objects, np.float64), ((0, 0), (0, 1)))
        outlines = self._fixed_point(self.project(centres[:, None] + BUTTON_RADIUS * _CIRCLE))
        for index, (outline, name) in enumerate(zip(outlines, state.colours, strict=True)):
            rgb = LIT_RGB if index == state.lit else _RGB[name]
            cv2.fillConvexPoly(canvas, outline, rgb, cv2.LINE_AA, _SHIFT)

    def _draw_balls(self, canvas: NDArray[np.uint8], balls: NDArray[np.float64]) -> None:
        # The nearer one last.
        for ball in sorted(balls.tolist(), key=lambda ball: -ball[1]):
            self._disc(canvas, np.array(ball[:3]), ball[3], BALL_RGB)

    def _draw_arm(self, canvas: NDArray[np.uint8], points: NDArray[np.float64]) -> None:
        pixels = self.project(points)
        half = LINK_WIDTH / 2 * self.pixels_per_metre(points)
        for start, end in ((0, 1), (1, 2), (2, 3)):
            along = pixels[end] - pixels[start]
            across = np.array([-along[1], along[0]]) / max(float(np.hypot(*along)), 1e-9)
            outline = [
                pixels[start] + half[start] * across,
                pixels[end] + half[end] * across,
                pixels[end] - half[end] * across,
                pixels[start] - half[start] * across,
            ]
            cv2.fillConvexPoly(canvas, self._fixed_point(np.array(outline)), ARM_RGB, cv2.LINE_AA, _SHIFT)
        self._disc(canvas, points[2], LINK_WIDTH / 2, ELBOW_RGB)
        self._disc(canvas, points[3], HAND_RADIUS, HAND_RGB)
        self._disc(canvas, points[3], HAND_CENTRE_RADIUS, HAND_CENTRE_RGB)

    def _disc(
        self, canvas: NDArray[np.uint8], centre: NDArray[np.float64], radius: float, rgb: tuple[int, int, int]
    ) -> None:
        """A ball's picture: a disc across the line of sight."""
        column, row = self._fixed_point(self.project(centre)).tolist()
        pixels = round(float(radius * self.pixels_per_metre(centre)) * (1 << _SHIFT))
        cv2.circle(canvas, (column, row), pixels, rgb, cv2.FILLED, cv2.LINE_AA, _SHIFT)

    def _with_noise(self, canvas: NDArray[Any], rng: np.random.Generator) -> NDArray[np.uint8]:
        more, less = _noise_tables(self.height, self.width)
        offset = int(rng.integers(self.height * self.width))
        row, column = divmod(offset, self.width)
        window = (slice(row, row + self.height), slice(column, column + self.width))
        # Of each pair one is zero, so that saturating twice is saturating once.
        return cv2.subtract(cv2.add(canvas, more[window]), less[window])

    @property
    def _centre(self) -> NDArray[np.float64]:
        return np.array([self.width - 1, self.height - 1]) / 2

    @staticmethod
    def _in_camera(points: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """``points`` along the camera's axes: to the right, down, and away from it, m."""
        x, y, z = np.moveaxis(np.asarray(points, np.float64) - LOOK_AT, -1, 0)
        sine, cosine = np.sin(PITCH), np.cos(PITCH)
        return x, -(y * sine + z * cosine), DISTANCE + y * cosine - z * sine

    @staticmethod
    def _fixed_point(pixels: NDArray[np.float64]) -> NDArray[np.int32]:
        return (pixels * (1 << _SHIFT)).round().astype(np.int32)
