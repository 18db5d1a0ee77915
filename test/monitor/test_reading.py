# SPDX-License-Identifier: Apache-2.0
"""A status as values: numbers that are none, levels that are none, texts that steer a terminal."""

import math

import pytest
from status_messages import array, status

from vla_edge_ros.monitor.reading import ERROR, MOST_STATUSES, MOST_VALUES, OK, STALE, WARN, readings


def read(*args, **values):
    (reading,) = readings(array(status(*args, **values)))
    return reading


def test_name_and_subject_are_split_at_the_last_colon():
    reading = read("/robot1/vla/vla_reasoner: KV cache", b"\x01", "full", slots=3)
    assert (reading.node, reading.subject) == ("/robot1/vla/vla_reasoner", "KV cache")
    assert (reading.level, reading.message, reading.text("slots")) == (WARN, "full", "3")
    assert read("no colon").node == "" and read("no colon").subject == "no colon"


@pytest.mark.parametrize(
    ("text", "number", "count"),
    [
        ("1.5", 1.5, 1),
        ("-3", -3.0, -3),
        ("", math.nan, 0),
        ("nan", math.nan, 0),
        ("inf", math.nan, 0),
        ("x", math.nan, 0),
    ],
)
def test_a_number_is_finite_or_not_a_number(text, number, count):
    reading = read("n", key=text)
    assert reading.number("key") == pytest.approx(number, nan_ok=True) and reading.count("key") == count
    assert math.isnan(reading.number("missing")) and reading.count("missing") == 0


@pytest.mark.parametrize(
    ("level", "read_as"),
    [
        (b"\x00", OK),
        (b"\x01", WARN),
        (b"\x02", ERROR),
        (b"\x03", STALE),
        (2, ERROR),
        (b"\x07", ERROR),
        (b"\xff", ERROR),
    ],
)
def test_a_level_is_one_of_four(level, read_as):
    assert read("n", level).level == read_as


def test_no_text_can_steer_the_terminal():
    reading = read("n\x1b[2J: a", message="a\x07\r\nb\x9b31m\udce9", key="\x1b]0;title\x07")
    for text in (reading.name, reading.message, reading.text("key")):
        assert text.isprintable()


def test_a_message_of_any_length_is_read_as_far_as_it_is_plausible():
    assert len(readings(array(*[status(str(n)) for n in range(MOST_STATUSES + 5)]))) == MOST_STATUSES
    assert len(read("n", **{f"k{n}": n for n in range(MOST_VALUES + 5)}).values) == MOST_VALUES
    assert len(read("n" * 10_000_000).name) < 2000
