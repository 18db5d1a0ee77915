# SPDX-License-Identifier: Apache-2.0
"""bfloat16 as its 16 raw bits, since NumPy has no such type: the upper half of a float32."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def bfloat16_to_float32(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Exact: every bfloat16 is a float32 whose lower 16 bits are zero."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def float32_to_bfloat16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Round to nearest, ties to even. ``values`` must be finite: a NaN could round to infinity."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    last_kept_bit = (bits >> np.uint32(16)) & np.uint32(1)
    return ((bits + np.uint32(0x7FFF) + last_kept_bit) >> np.uint32(16)).astype(np.uint16)


def round_to_bfloat16(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The nearest values that bfloat16 can hold, as float32."""
    return bfloat16_to_float32(float32_to_bfloat16(values))
