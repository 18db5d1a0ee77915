# SPDX-License-Identifier: Apache-2.0
"""splitmix64: 64 well-mixed bits of a number, the source of everything here that is random and repeatable.

Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators" (OOPSLA 2014).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_MASK = 2**64 - 1


def splitmix64(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The standard finaliser of ``x + 0x9E3779B97F4A7C15``, elementwise on a uint64 array."""
    state = x + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def splitmix64_of(value: int) -> int:
    """The same of one number, modulo 2**64."""
    return int(splitmix64(np.array([value & _MASK], np.uint64))[0])
