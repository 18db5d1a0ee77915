# SPDX-License-Identifier: Apache-2.0
"""What is on the table at one moment: sizes, colours, and the state that the camera draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CONTROL_HZ = 30

# Where hand and buttons are: |x| and |y| of their centres at most, m.
WORK_AREA = (0.28, 0.12)
BUTTON_RADIUS = 0.035
# The hand moves at this height above the table; whatever lies on the table is lower.
HOVER_HEIGHT = 0.06
LARGEST_BALL_RADIUS = 0.028

# RGB. A button's name in an instruction is its colour's.
COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (220, 40, 40),
    "green": (40, 180, 60),
    "blue": (50, 80, 230),
    "yellow": (235, 200, 40),
}
GREY = "grey"
GREY_RGB = (95, 95, 100)
LIT_RGB = (255, 245, 170)


def no_balls() -> NDArray[np.float64]:
    return np.zeros((0, 4))


@dataclass(frozen=True, slots=True, eq=False)
class SceneState:
    """Everything that a picture depends on, but for the sensor's noise."""

    joints: NDArray[np.float64]  # [3] rad
    objects: NDArray[np.float64]  # [k, 2] m, centres of the buttons
    colours: tuple[str, ...]  # k names of COLOURS, or GREY
    lit: int | None  # index of the button whose lamp is on
    balls: NDArray[np.float64]  # [m, 4] m: x, y, z of the centre, and radius
    gain: float = 1.0  # brightness, 1.0 is nominal

    def __post_init__(self) -> None:
        if np.shape(self.joints) != (3,):
            raise ValueError(f"expected joints [3], got {np.shape(self.joints)}")
        if np.shape(self.objects) != (len(self.colours), 2):
            raise ValueError(
                f"expected objects [{len(self.colours)}, 2], one a colour, got {np.shape(self.objects)}"
            )
        if np.ndim(self.balls) != 2 or np.shape(self.balls)[1] != 4:
            raise ValueError(f"expected balls [m, 4], got {np.shape(self.balls)}")
        unknown = set(self.colours) - COLOURS.keys() - {GREY}
        if unknown:
            raise ValueError(f"expected colours of {[*COLOURS, GREY]}, got {sorted(unknown)}")
        if self.lit is not None and not 0 <= self.lit < len(self.colours):
            raise ValueError(f"expected lit in 0..{len(self.colours) - 1} or None, got {self.lit}")
        if not (np.isfinite(self.gain) and self.gain >= 0):
            raise ValueError(f"expected a finite gain of at least 0, got {self.gain}")
