# SPDX-License-Identifier: Apache-2.0
"""The eight ways in which a stored picture may lie, as EXIF numbers them, and how to set it upright.

Cameras store the rows as the sensor read them and write down how they lie: a still in its EXIF tag, a video
in a display matrix. A selfie camera mirrors as well as turns, hence eight and not four.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

UPRIGHT = 1

# EXIF's number -> (swap rows and columns, then flip left to right, then flip top to bottom)
_STEPS = {
    1: (False, False, False),
    2: (False, True, False),
    3: (False, True, True),
    4: (False, False, True),
    5: (True, False, False),
    6: (True, True, False),
    7: (True, True, True),
    8: (True, False, True),
}
_ORIENTATIONS = {steps: orientation for orientation, steps in _STEPS.items()}


def set_upright(pixels: NDArray[Any], orientation: int) -> NDArray[Any]:
    """``pixels`` ``[height, width, ...]`` as they are meant to be seen, C-contiguous.

    ``orientation``: EXIF's number, 1 to 8. Any other one says nothing, and the picture stays as it is.
    """
    swap, flip_x, flip_y = _STEPS.get(orientation, _STEPS[UPRIGHT])
    if swap:
        pixels = pixels.swapaxes(0, 1)
    if flip_x:
        pixels = pixels[:, ::-1]
    if flip_y:
        pixels = pixels[::-1]
    return np.ascontiguousarray(pixels)


def from_display_matrix(matrix: NDArray[np.int32]) -> int:
    """EXIF's number for a video's display matrix: nine values, ``x' = m[0] x + m[3] y``,
    ``y' = m[1] x + m[4] y``, y down. Scale is ignored; an angle between two counts as the nearer."""
    a, b, c, d = (int(matrix[index]) for index in (0, 1, 3, 4))
    swap = abs(b) + abs(c) > abs(a) + abs(d)
    x_scale, y_scale = (c, b) if swap else (a, d)
    return _ORIENTATIONS[swap, x_scale < 0, y_scale < 0]
