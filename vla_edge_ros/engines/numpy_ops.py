# SPDX-License-Identifier: Apache-2.0
"""The operations of the decoder as plain NumPy functions: the specification of the CUDA kernels.

Each function has the name and argument order of its kernel, takes and returns float32, and changes nothing.
Axes: t new tokens, d hidden size, h query heads, g KV heads, e head size, n pages, s slots of a page, k visible slots.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float32]


def patch_embed(pixels: NDArray[np.uint8], projection: Float) -> Float:
    """``[height, width, 3]``, ``[d, patch * patch * 3]`` -> ``[t, d]``; order as in ``model.patch_embedding``."""
    height, width, _ = pixels.shape
    size = int(np.sqrt(projection.shape[1] // 3))
    patches = pixels.reshape(height // size, size, width // size, size, 3).transpose(0, 2, 1, 3, 4)
    values = patches.reshape(-1, size * size * 3).astype(np.float32) / np.float32(127.5) - np.float32(1)
    return values @ projection.T
