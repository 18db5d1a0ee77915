# SPDX-License-Identifier: Apache-2.0
"""bfloat16 rounding against an oracle in exact arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vla_edge_ros.model.bfloat16 import bfloat16_to_float32, float32_to_bfloat16, round_to_bfloat16

finite = st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**127), max_value=2.0**127)


def exact_value(bits: int) -> Fraction:
    """A bfloat16 bit pattern by the definition: 1 sign, 8 exponent and 7 fraction bits."""
    sign = -1 if bits >> 15 else 1
    exponent, fraction = (bits >> 7) & 0xFF, bits & 0x7F
    if exponent == 0:
        return sign * Fraction(fraction, 128) * Fraction(2) ** -126
    return sign * (1 + Fraction(fraction, 128)) * Fraction(2) ** (exponent - 127)


@given(finite)
def test_rounding_gives_the_nearest_value_and_ties_go_to_even(value):
    bits = int(float32_to_bfloat16(np.array([value], np.float32))[0])
    exact = Fraction(float(np.float32(value)))
    distance = abs(exact_value(bits) - exact)
    for neighbour in (bits - 1, bits + 1):
        if not 0 <= neighbour & 0x7FFF < 0x7F80 or (neighbour ^ bits) & 0x8000:
            continue
        other = abs(exact_value(neighbour) - exact)
        assert distance < other or (distance == other and bits % 2 == 0)


def test_every_finite_bit_pattern_survives_the_way_there_and_back():
    bits = np.arange(1 << 16, dtype=np.uint16)
    bits = bits[(bits & 0x7F80) != 0x7F80]
    assert np.array_equal(float32_to_bfloat16(bfloat16_to_float32(bits)), bits)


@pytest.mark.parametrize("shape", [(0,), (3, 5), (2, 1, 4)])
def test_shape_is_kept(shape):
    assert round_to_bfloat16(np.ones(shape, np.float32)).shape == shape


def test_non_contiguous_input_is_rounded_element_by_element():
    values = np.linspace(-3, 3, 24, dtype=np.float32).reshape(4, 6)
    assert np.array_equal(round_to_bfloat16(values.T), round_to_bfloat16(values).T)
