# SPDX-License-Identifier: Apache-2.0
"""Seeded random weights: the same bits on every machine, computable element by element on a GPU.

All integers are uint64 and wrap; ``name`` is the tensor's Hugging Face name; element ``i`` is its flat index
in row-major order of its Hugging Face shape ``[out, in]``::

    splitmix64(x)  s = x + 0x9E3779B97F4A7C15
                   s = (s ^ (s >> 30)) * 0xBF58476D1CE4E5B9
                   s = (s ^ (s >> 27)) * 0x94D049BB133111EB
                   return s ^ (s >> 31)
    fnv1a64(bytes) h = 0xCBF29CE484222325; for each byte b: h = (h ^ b) * 0x100000001B3
    key            splitmix64(seed ^ fnv1a64(name as UTF-8))
    uniform(n)     ((splitmix64(key + n) >> 11) + 0.5) * 2**-53, in float64: inside (0, 1), never an end of it
    pair j         u1 = uniform(2j), u2 = uniform(2j + 1), r = sqrt(-2 ln u1), in float64
                   element 2j     z = r cos(2 pi u2)
                   element 2j + 1 z = r sin(2 pi u2)      (left out past the end of a tensor of odd size)
    value          norm weights (names ending in "norm.weight"): 1 + 0.1 z; all others: 0.02 z
                   float64 -> float32 -> bfloat16, each to nearest, ties to even; then held as float32

The two roundings matter: going from float64 to bfloat16 in one step differs in about one element of 2**17.
Logarithm, sine and cosine of two libraries may differ in the last bit of a float64; the rounding to bfloat16
hides that except with a probability of about 2**-43 an element.

Sources: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators" (splitmix64); the FNV hash of
Fowler, Noll and Vo; Box and Muller, 1958. Standard deviation 0.02 is the ``initializer_range`` of both
model families.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.errors import WeightsError
from vla_edge_ros.model.bfloat16 import bfloat16_to_float32, float32_to_bfloat16
from vla_edge_ros.model.decoder_config import DecoderConfig
from vla_edge_ros.model.tensor_shapes import EMBEDDING, LM_HEAD, tensor_shapes
from vla_edge_ros.splitmix64 import splitmix64, splitmix64_of

STANDARD_DEVIATION = 0.02
NORM_SPREAD = 0.1
LOGGER = logging.getLogger(__name__)
MANY_ELEMENTS = 100_000_000  # a few seconds of a CPU's time
PROGRESS_S = 10.0
_MASK = (1 << 64) - 1
_BLOCK = 1 << 18  # elements at a time: float64 temporaries stay a few MB, whatever the tensor's size


def fnv1a64(text: str) -> int:
    """64-bit FNV-1a hash of the UTF-8 bytes."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & _MASK
    return value


def tensor_key(seed: int, name: str) -> np.uint64:
    """The 64-bit key of one tensor's stream."""
    return np.uint64(splitmix64_of(seed ^ fnv1a64(name)))


def normal(key: np.uint64, start: int, stop: int) -> NDArray[np.float64]:
    """Elements ``start`` to ``stop`` of a key's stream of standard normal numbers."""
    first_pair, last_pair = start // 2, (stop + 1) // 2
    counter = np.arange(2 * first_pair, 2 * last_pair, dtype=np.uint64) + key
    uniform = ((splitmix64(counter) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    radius = np.sqrt(-2.0 * np.log(uniform[0::2]))
    angle = 2.0 * np.pi * uniform[1::2]
    z = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)
    return z[start - 2 * first_pair : stop - 2 * first_pair]


def random_bfloat16(
    seed: int, name: str, start: int, stop: int, scale: float, offset: float = 0.0
) -> NDArray[np.uint16]:
    """Elements ``start`` to ``stop`` of tensor ``name``: ``offset + scale * z``, as bfloat16 bits."""
    key = tensor_key(seed, name)
    bits = np.empty(stop - start, np.uint16)
    for low in range(start, stop, _BLOCK):
        high = min(low + _BLOCK, stop)
        values = offset + scale * normal(key, low, high)
        bits[low - start : high - start] = float32_to_bfloat16(values.astype(np.float32))
    return bits


class _Progress:
    """Says in the log how far a large model's tensors are made: 1.3 billion numbers take a CPU minutes.

    The tables of the vocabulary are left out: of them an engine takes some rows.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]):
        self._missing = {
            name: math.prod(shape) for name, shape in shapes.items() if name not in (EMBEDDING, LM_HEAD)
        }
        self._total = sum(self._missing.values())
        self._told_s = math.inf

    def note(self, name: str) -> None:
        """Tensor ``name`` is made."""
        if self._total < MANY_ELEMENTS or self._missing.pop(name, None) is None:
            return
        now_s = time.monotonic()
        if math.isinf(self._told_s):
            LOGGER.info(
                "makes %.1f billion random weights, which takes minutes (model.path names trained ones)",
                self._total / 1e9,
            )
            self._told_s = now_s
        elif now_s - self._told_s >= PROGRESS_S:
            done = self._total - sum(self._missing.values())
            LOGGER.info("random weights: %.0f %% made", 100 * done / self._total)
            self._told_s = now_s


class RandomWeights:
    """A decoder of random weights; nothing is kept, each call computes what it returns."""

    def __init__(self, config: DecoderConfig, seed: int):
        self.config = config
        self.seed = seed
        self._shapes = tensor_shapes(config)
        self._progress = _Progress(self._shapes)

    def has(self, name: str) -> bool:
        return name in self._shapes

    def raw(self, name: str) -> tuple[str, NDArray[np.uint16]]:
        """``("bfloat16", uint16 bits in the tensor's shape)``."""
        shape = self._shape(name)
        made = self._elements(name, 0, int(np.prod(shape))).reshape(shape)
        self._progress.note(name)
        return "bfloat16", made

    def tensor(self, name: str) -> NDArray[np.float32]:
        return bfloat16_to_float32(self.raw(name)[1])

    def rows(self, name: str, indices: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float32]:
        """The given rows of a matrix, without making the rest: ``[len(indices), in]``."""
        _, width = self._shape(name)
        made = [self._elements(name, int(row) * width, (int(row) + 1) * width) for row in indices]
        return bfloat16_to_float32(np.stack(made)) if made else np.empty((0, width), np.float32)

    def _shape(self, name: str) -> tuple[int, ...]:
        if name not in self._shapes:
            raise WeightsError(f"random weights have no tensor {name!r}, only those of tensor_shapes(config)")
        return self._shapes[name]

    def _elements(self, name: str, start: int, stop: int) -> NDArray[np.uint16]:
        scale, offset = scale_and_offset(name)
        return random_bfloat16(self.seed, name, start, stop, scale, offset)


def scale_and_offset(name: str) -> tuple[float, float]:
    """``(scale, offset)`` of a tensor's values ``offset + scale * z``."""
    return (NORM_SPREAD, 1.0) if name.endswith("norm.weight") else (STANDARD_DEVIATION, 0.0)
