# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import count, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vla_edge_ros.replay.pacing import frames_by_tick, media_time, timeline


@dataclass(frozen=True)
class Mark:
    number: int
    media_ns: int


def marks(times: list[int]) -> list[Mark]:
    return [Mark(i, t) for i, t in enumerate(times)]


def rising(gaps: list[int]) -> list[int]:
    times = [0]
    for gap in gaps:
        times.append(times[-1] + gap)
    return times


def at_rate(rate: Fraction, frames: int) -> list[Mark]:
    return marks([int(i * 10**9 / rate) for i in range(frames)])


GAPS = st.lists(st.integers(0, 200_000_000), max_size=20)
PERIODS = st.integers(1_000_000, 300_000_000)


@given(GAPS, PERIODS, st.integers(1, 3))
def test_media_time_shows_the_last_frame_that_has_started(gaps, period_ns, passes):
    times = rising(gaps)
    # The oracle lays all passes on one axis and looks each tick up by search.
    length = times[-1] + (next((g for g in reversed(gaps) if g), 0) or period_ns)
    starts = [(p * length + t, i) for p in range(passes) for i, t in enumerate(times)]
    slack = period_ns // 100
    expected, tick = [], 0
    while tick * period_ns < passes * length - slack:
        expected.append([i for start, i in starts if start - slack <= tick * period_ns][-1])
        tick += 1
    shown = [mark.number for mark in media_time([marks(times)] * passes, period_ns)]
    assert shown == expected


@given(GAPS, st.integers(1, 4))
def test_each_frame_shows_every_frame_once_a_pass(gaps, passes):
    clip = marks(rising(gaps))
    assert list(frames_by_tick([clip] * passes, "each_frame", 1)) == clip * passes


@given(GAPS, PERIODS, st.integers(1, 4))
def test_the_timeline_never_goes_back_across_the_seam(gaps, period_ns, passes):
    starts = [start for start, _ in timeline([marks(rising(gaps))] * passes, period_ns)]
    assert starts == sorted(starts)
    assert starts[-1] > starts[-2]  # the last frame lasts


@pytest.mark.parametrize("rate", [60, 30, 25, 15, 12.5, Fraction(30000, 1001), Fraction(179, 6)])
def test_equal_rates_show_each_frame_exactly_once_for_many_passes(rate):
    rate = Fraction(rate)
    clip = at_rate(rate, 100)
    shown = islice(media_time([clip] * 50, round(10**9 / rate)), 5000)
    assert [mark.number for mark in shown] == list(range(100)) * 50


def test_fifteen_hertz_media_at_sixty_hertz_shows_each_frame_four_times():
    shown = [mark.number for mark in media_time([at_rate(Fraction(15), 10)], 16_666_667)]
    assert shown == [i for i in range(10) for _ in range(4)]


def test_sixty_hertz_media_at_fifteen_hertz_shows_every_fourth_frame():
    shown = [mark.number for mark in media_time([at_rate(Fraction(60), 40)], 66_666_667)]
    assert shown == list(range(0, 40, 4))


def test_a_single_picture_is_shown_once_a_pass():
    assert [mark.number for mark in media_time([marks([0])] * 3, 10)] == [0, 0, 0]


def test_frames_are_taken_as_they_are_needed():
    taken: list[int] = []

    def endless():
        for number in count():
            taken.append(number)
            yield Mark(number, number * 100)

    ticks = media_time([endless()], 100)
    assert [next(ticks).number for _ in range(3)] == [0, 1, 2]
    assert len(taken) <= 4


def test_passes_without_frames_end():
    assert list(media_time([[], []], 10)) == []
