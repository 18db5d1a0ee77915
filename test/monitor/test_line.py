# SPDX-License-Identifier: Apache-2.0
"""Widths and colours."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vla_edge_ros.monitor.line import BARS, PLAIN_BARS, STYLES, bar, clipped, columns, joined, painted

TEXTS = st.text(st.sampled_from("ab é漢字e\u0301\u200bｗ🙂-"), max_size=12)


def wide(text: str) -> int:
    return sum(map(columns, text))


def test_columns_of_characters():
    """By East Asian Width (UAX 11); a combining mark and a zero-width space take none."""
    assert [columns(c) for c in "aé漢ｗ🙂\u0301\u200b"] == [1, 1, 2, 2, 2, 0, 0]


@given(TEXTS, st.integers(0, 30))
def test_clipped_fits_and_keeps_what_it_can(text, width):
    short = clipped(text, width)
    assert wide(short) <= width
    if wide(text) <= width:
        assert short == text
    elif width:
        assert short.endswith("~") and text.startswith(short[:-1])
        assert wide(short) >= width - 1  # half a wide character cannot be shown


@given(st.lists(st.tuples(TEXTS, st.sampled_from(sorted(STYLES)))), st.integers(0, 40))
def test_colours_change_nothing_but_the_colour(line, width):
    plain, coloured = (painted(line, width, has_colour=colour) for colour in (False, True))
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plain and "\x1b" not in plain
    assert wide(plain) <= width
    assert coloured.count("\x1b[0m") * 2 == coloured.count("\x1b")  # each colour ends with its text


@pytest.mark.parametrize(
    ("value", "level"),
    [(0.0, 0), (1.0, 0), (4.0, 0), (4.2, 1), (16.5, 3), (32.9, 7), (33.0, 7), (900.0, 7), (-5.0, 0)],
)
def test_a_bar_is_as_high_as_the_value(value, level):
    assert bar(value, 33.0, is_unicode=True) == BARS[level]
    assert bar(value, 33.0, is_unicode=False) == PLAIN_BARS[level]


@pytest.mark.parametrize(("value", "full"), [(math.nan, 33.0), (1.0, math.nan), (1.0, 0.0), (1.0, -1.0)])
def test_what_has_no_value_has_no_bar(value, full):
    assert bar(value, full, is_unicode=True) == " "


def test_joined_leaves_out_what_says_nothing():
    assert joined(["a", "", "b"]) == "a  b"
