# SPDX-License-Identifier: Apache-2.0
"""One generator, of arrays and of single numbers, against its published sequence."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vla_edge_ros.splitmix64 import splitmix64, splitmix64_of


def test_splitmix64_gives_the_published_sequence():
    """First outputs of Vigna's splitmix64.c for seed 1234567."""
    step = 0x9E3779B97F4A7C15
    outputs = [splitmix64_of(1234567 + i * step) for i in range(3)]
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@given(st.integers(-(2**70), 2**70))
def test_an_array_gives_the_same_as_each_number_in_64_bits_of_python(value):
    mask = 2**64 - 1
    state = (value + 0x9E3779B97F4A7C15) & mask
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & mask
    expected = state ^ (state >> 31)
    assert splitmix64_of(value) == expected
    assert splitmix64(np.full(3, value & mask, np.uint64)).tolist() == [expected] * 3
