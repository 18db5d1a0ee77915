# SPDX-License-Identifier: Apache-2.0
"""Weights that are not finite are refused as they are read: one may spoil every action and show in none.

A NaN or an infinity that becomes an integer may leave a constant. So the elements are looked at before
anything is made of them, whatever a checkpoint stores and an engine keeps. What counts is what bfloat16 can
hold: a float32 beyond 3.396e38 would be rounded to infinity.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.errors import WeightsError
from vla_edge_ros.model.bfloat16 import bfloat16_to_float32
from vla_edge_ros.model.random_weights import RandomWeights
from vla_edge_ros.model.weights import Weights

# By a stored type: the least magnitude, as bits, that is refused. With the sign bit the others follow.
_FIRST_REFUSED = {"bfloat16": 0x7F80, "float16": 0x7C00, "float32": 0x7F7F8000}
_BLOCK = 1 << 18  # elements at a time: the second maximum finds them in a cache


def has_refused(type_name: str, elements: NDArray[np.generic]) -> bool:
    """Whether ``elements`` (bfloat16 as uint16 bits) holds one that is refused.

    Two maxima over the bits, of those without a sign and of those with one: no copy, and no arithmetic.
    """
    size = elements.itemsize
    bits = elements.reshape(-1).view(f"u{size}")
    signed, first, sign = bits.view(f"i{size}"), _FIRST_REFUSED[type_name], 1 << (8 * size - 1)
    for begin in range(0, len(bits), _BLOCK):
        piece = slice(begin, begin + _BLOCK)
        if int(signed[piece].max()) >= first or int(bits[piece].max()) >= first + sign:
            return True
    return False


def require_finite(name: str, type_name: str, elements: NDArray[np.generic], first_row: int = 0) -> None:
    """Raise ``WeightsError`` with the place of the first element of tensor ``name`` that is refused.

    ``elements``: its rows from ``first_row`` on, bfloat16 as uint16 bits.
    """
    if not has_refused(type_name, elements):
        return
    bits = elements.view(f"u{elements.itemsize}")
    sign = 1 << (8 * elements.itemsize - 1)
    flat = int(np.argmax((bits & (sign - 1)).ravel() >= _FIRST_REFUSED[type_name]))
    at = [int(index) for index in np.unravel_index(flat, elements.shape)]
    found = elements[tuple(at)]
    value = bfloat16_to_float32(np.asarray([found], np.uint16))[0] if type_name == "bfloat16" else found
    at[0] += first_row
    raise WeightsError(
        f"{name}: expected finite weights of at most 3.39e38, got {float(value):g} at {at} of the stored "
        f"{type_name} tensor"
    )


class FiniteWeights:
    """``original``, looked at as it is read: ``WeightsError`` where an element is refused."""

    def __init__(self, original: Weights):
        self.original, self.config = original, original.config

    def has(self, name: str) -> bool:
        return self.original.has(name)

    def raw(self, name: str) -> tuple[str, NDArray[np.generic]]:
        type_name, elements = self.original.raw(name)
        require_finite(name, type_name, elements)
        return type_name, elements

    def tensor(self, name: str) -> NDArray[np.float32]:
        self.raw(name)
        return self.original.tensor(name)

    def rows(self, name: str, indices: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float32]:
        rows = self.original.rows(name, indices)
        if has_refused("float32", rows):
            for index, row in zip(indices, rows, strict=True):
                require_finite(name, "float32", row[None], int(index))
        return rows


def finite(weights: Weights) -> Weights:
    """``weights``, looked at as they are read; random ones are finite by rule, and slow to make twice."""
    return weights if isinstance(weights, (RandomWeights, FiniteWeights)) else FiniteWeights(weights)


def require_finite_tensor(weights: Weights, name: str) -> None:
    """Look at a whole tensor of which an engine reads single rows later: it must not fail in a cycle."""
    if isinstance(weights, FiniteWeights):
        weights.raw(name)
