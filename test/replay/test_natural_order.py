# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vla_edge_ros.replay.natural_order import have_decimals, natural_key


def in_order(names: list[str]) -> list[str]:
    decimals = have_decimals(names)
    return sorted(names, key=lambda name: natural_key(f"{name}.png", decimals))


@given(st.lists(st.integers(0, 10**9), unique=True))
def test_natural_order_is_numeric_order(numbers):
    names = sorted((f"a{number}.png" for number in numbers), key=natural_key)
    assert names == [f"a{number}.png" for number in sorted(numbers)]


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), unique=True), st.sampled_from(["", "t_", "x="])
)
def test_names_that_python_prints_of_numbers_are_in_their_order(numbers, before):
    """``repr`` writes signs, fractions and exponents as they come."""
    numbers = [number + 0.0 for number in numbers]  # one zero, not two
    assert in_order([f"{before}{number!r}" for number in numbers]) == [
        f"{before}{number!r}" for number in sorted(numbers)
    ]


@given(st.lists(st.text(max_size=8)), st.booleans())
def test_any_names_can_be_ordered_and_the_order_is_one(names, decimals):
    once = sorted(names, key=lambda name: natural_key(name, decimals))
    random.Random(0).shuffle(names)
    assert sorted(names, key=lambda name: natural_key(name, decimals)) == once


@pytest.mark.parametrize(
    "names",
    [
        ["1700000000.05", "1700000000.1", "1700000000.125", "1700000000.2"],
        ["-10", "-2.5", "-2", "0", "+1", "3"],
        ["t_-0.5", "t_-0.25", "t_0", "t_0.75"],
        ["1e-05", "0.0002", "1.5e-3", "0.1", "2", "1.25e2", "1e3"],
        ["1700000000", "1700000000.5", "1700000001"],
        ["0.500", "0.750", "1.000", "1.250", "10.000"],
        # What only looks like a number with a sign, a fraction or an exponent.
        ["frame-1", "frame-2", "frame-10"],
        ["2024-01-02", "2024-01-10", "2024-11-01"],
        ["shot1.8", "shot1.9", "shot1.10", "shot1.11"],
        ["1700000000.50000000", "1700000000.100000000", "1700000000.900000000"],  # nanoseconds without zeros
        ["1.2.3", "1.2.10", "1.10.1"],
        ["S01E02", "S01E10", "S02E01"],
        ["cam0.0001", "cam0.0002", "cam0.0010"],
        ["a.1", "a.2", "a.10"],
        ["3e5f", "12ab"],
        ["9", "10\u00b25"],  # a superscript is a digit but no number
    ],
)
def test_names_of_recorders(names):
    assert in_order(names[::-1]) == names


def test_equal_numbers_do_not_leave_the_order_to_the_disk():
    assert in_order(["1.00", "1.0", "1"]) == in_order(["1", "1.00", "1.0"])
