# SPDX-License-Identifier: Apache-2.0
"""Integer weights: the two rules, and a decoder's weights as an engine that keeps integers has them.

``int8``  one scale a row: ``max|w| / 127``; values of -127 to 127.
``int4``  one scale for each 128 of a row's inputs (the last group may be shorter): the extreme value, the one
    of largest magnitude, divided by -8; values of -8 to 7. The scale is a bfloat16. This is the rule of
    llama.cpp's Q4_0, whose steps are finer by an eighth than those of ``max|w| / 7``; a value near the
    extreme but of the other sign is cut at 7 steps (docs/explanation/quantisation.md has both errors).

All arithmetic is float32, to nearest with ties to even, so a GPU makes the same integers. A scale of zero
gives zeros. Matrices are ``[out, in]``.

With ``engine.weights`` ``int4`` the embedding and the head are int8; norms, biases and the patch projection
stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.model.bfloat16 import round_to_bfloat16
from vla_edge_ros.model.tensor_shapes import EMBEDDING, LM_HEAD
from vla_edge_ros.model.weights import Weights

GROUP = 128  # inputs that share an int4 scale

Float = NDArray[np.float32]
Integers = NDArray[np.int8]


def quantise_int8(matrix: Float) -> tuple[Integers, Float]:
    """``[out, in]`` -> integers of the same shape, scales ``[out]``."""
    scales = np.abs(matrix).max(axis=1) / np.float32(127)
    return _integers(matrix, scales[:, None], -127, 127), scales


def dequantise_int8(integers: Integers, scales: Float) -> Float:
    return integers * scales[:, None]


def quantise_int4(matrix: Float) -> tuple[Integers, Float]:
    """``[out, in]`` -> integers of the same shape, scales ``[out, groups]``."""
    starts = np.arange(0, matrix.shape[1], GROUP)
    highest, lowest = np.maximum.reduceat(matrix, starts, axis=1), np.minimum.reduceat(matrix, starts, axis=1)
    extreme = np.where(highest >= -lowest, highest, lowest)
    scales = round_to_bfloat16(extreme * np.float32(-1 / 8))
    return _integers(matrix, _spread(scales, matrix.shape[1]), -8, 7), scales


def dequantise_int4(integers: Integers, scales: Float) -> Float:
    return integers * _spread(scales, integers.shape[1])


def _spread(scales: Float, columns: int) -> Float:
    return np.repeat(scales, GROUP, axis=1)[:, :columns]


def _integers(matrix: Float, scales: Float, least: int, most: int) -> Integers:
    steps = np.divide(matrix, scales, out=np.zeros_like(matrix), where=scales != 0)
    return np.clip(np.rint(steps), least, most).astype(np.int8)


def format_of(name: str, weights: str) -> str:
    """How an engine with ``engine.weights`` = ``weights`` keeps tensor ``name``: bf16, int8 or int4."""
    if name in (EMBEDDING, LM_HEAD):
        return "bf16" if weights == "bf16" else "int8"
    return weights if name.endswith("proj.weight") else "bf16"


def round_trip(matrix: Float, kept_as: str) -> Float:
    """What ``matrix`` is after it was kept as ``kept_as``; ``bf16`` changes nothing here."""
    if kept_as == "int8":
        return dequantise_int8(*quantise_int8(matrix))
    if kept_as == "int4":
        return dequantise_int4(*quantise_int4(matrix))
    return matrix


class QuantisedWeights:
    """``original`` with the values that integers leave of it; made as they are asked for, nothing is kept."""

    def __init__(self, original: Weights, weights: str):
        self.original, self.config = original, original.config
        self._weights = weights

    def has(self, name: str) -> bool:
        return self.original.has(name)

    def raw(self, name: str) -> tuple[str, NDArray[np.generic]]:
        if format_of(name, self._weights) == "bf16":
            return self.original.raw(name)
        return "float32", self.tensor(name)

    def tensor(self, name: str) -> Float:
        return round_trip(self.original.tensor(name), format_of(name, self._weights))

    def rows(self, name: str, indices: Sequence[int] | NDArray[np.int64]) -> Float:
        return round_trip(self.original.rows(name, indices), format_of(name, self._weights))


def as_kept(original: Weights, weights: str) -> Weights:
    """The weights that an engine with ``engine.weights`` = ``weights`` multiplies with."""
    return original if weights == "bf16" else QuantisedWeights(original, weights)
