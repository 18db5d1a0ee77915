# SPDX-License-Identifier: Apache-2.0
"""Keys and values as int8: what an engine with ``engine.kv`` = ``int8`` keeps of them.

Sixteen values of a head, eight neighbours of its lower half and the eight half a head above them, share a
scale, which is a power of two: the largest of them is 64 to 128 steps, and from 127.5 on it is cut at 127.
So a value is off by half a step at most, or by less than one where it is cut. An int8 times a power of two is
a bfloat16, exactly. Below 2**-120 the steps stay 2**-126.

A group with a value that is not finite gets NaN for a scale, and is NaN as a whole.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

GROUP = 16  # values that share a scale
_TILE = GROUP // 2  # neighbours in a half of a head
_MOST = 127
_NOT_FINITE = np.uint32(0x7F800000)  # the bits of infinity; those of NaN are above

Float = NDArray[np.float32]
Integers = NDArray[np.int8]


def quantise_kv(values: Float) -> tuple[Integers, Float]:
    """``[..., head size]`` -> integers of the same shape, scales ``[..., head size / 16]``."""
    groups = _groups(np.asarray(values, np.float32))
    bits = np.ascontiguousarray(groups).view(np.uint32) & np.uint32(0x7FFFFFFF)
    largest = bits.max(axis=(-3, -1))  # as bits, NaN and infinity are the largest
    exponent = np.maximum(largest >> np.uint32(23), np.uint32(7)) - np.uint32(6)
    scales = (exponent << np.uint32(23)).view(np.float32)
    inverses = ((np.uint32(254) - exponent) << np.uint32(23)).view(np.float32)
    with np.errstate(all="ignore"):
        steps = np.rint(groups * inverses[..., None, :, None])
    integers = np.clip(np.nan_to_num(steps, nan=0.0), -_MOST, _MOST).astype(np.int8)
    return integers.reshape(values.shape), np.where(largest < _NOT_FINITE, scales, np.float32(np.nan))


def dequantise_kv(integers: Integers, scales: Float) -> Float:
    groups = _groups(integers).astype(np.float32)
    return (groups * scales[..., None, :, None]).reshape(integers.shape)


def kept_kv(values: Float) -> Float:
    """What int8 leaves of ``[..., head size]``."""
    return dequantise_kv(*quantise_kv(values))


def steps_of(values: Float) -> Float:
    """The scale of each value, in the shape of ``values``."""
    scales = quantise_kv(values)[1]
    return np.broadcast_to(scales[..., None, :, None], _groups(values).shape).reshape(values.shape)


def _groups(values: NDArray) -> NDArray:
    """``[..., half, group, neighbour]``"""
    return values.reshape(*values.shape[:-1], 2, -1, _TILE)
