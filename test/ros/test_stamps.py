# SPDX-License-Identifier: Apache-2.0
"""Stamps from unknown senders: believed, replaced, or out of order; never a negative age by mistake."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vla_edge_ros.errors import ImageError
from vla_edge_ros.ros.stamps import StampRules
from vla_edge_ros.types import NS_PER_S

NOW = 1_700_000_000 * NS_PER_S
MS = 1_000_000


def apply(rules: StampRules, stamp_ns: int, now_ns: int = NOW) -> int:
    return rules.apply(*divmod(stamp_ns, NS_PER_S), now_ns)


@pytest.mark.parametrize("age_ms", [0, 1, 99, 10_000, 3_599_000])
def test_a_stamp_that_can_be_true_is_kept_however_old(age_ms):
    rules = StampRules(50.0)
    assert apply(rules, NOW - age_ms * MS) == NOW - age_ms * MS
    assert not rules.replaced


def test_a_stamp_slightly_in_the_future_is_kept():
    assert apply(StampRules(50.0), NOW + 50 * MS) == NOW + 50 * MS


@pytest.mark.parametrize(
    ("stamp_ns", "reason"),
    [
        (0, "zero"),
        (-1 * NS_PER_S, "negative"),
        (-(2**31) * NS_PER_S, "negative"),
        (NOW + 51 * MS, "future"),
        (NOW + 5 * NS_PER_S, "future"),
        ((2**31 - 1) * NS_PER_S, "future"),
        (NOW - 3601 * NS_PER_S, "absurd"),
        (12 * NS_PER_S, "absurd"),
    ],
)
def test_a_stamp_that_cannot_be_true_becomes_the_time_of_receipt(stamp_ns, reason):
    rules = StampRules(50.0)
    assert apply(rules, stamp_ns) == NOW
    assert rules.replaced == {reason: 1}


def test_a_frame_older_than_the_newest_is_refused():
    rules = StampRules(50.0)
    apply(rules, NOW)
    with pytest.raises(ImageError, match="16.0 ms before") as refusal:
        apply(rules, NOW - 16 * MS, NOW + MS)
    assert refusal.value.reason == "order"
    assert apply(rules, NOW + 16 * MS, NOW + 17 * MS) == NOW + 16 * MS


def test_two_frames_of_one_stamp_are_told_apart():
    rules = StampRules(50.0)
    assert apply(rules, NOW) == NOW
    assert apply(rules, NOW) == NOW + 1


def test_a_clock_that_was_set_back_starts_a_new_order():
    rules = StampRules(50.0)
    apply(rules, NOW)
    back = NOW - 60 * NS_PER_S
    assert apply(rules, back, back) == back


def test_without_a_clock_frames_still_rise():
    rules = StampRules(50.0)
    stamps = [apply(rules, NOW + i * 16 * MS, now_ns=0) for i in range(5)]
    assert stamps == sorted(set(stamps)) and stamps[-1] < MS


@given(
    st.lists(
        st.tuples(st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**32 - 1), st.integers(0, 40 * MS)),
        max_size=30,
    )
)
def test_any_sender_gives_rising_stamps_that_are_never_far_in_the_future(messages):
    rules, now_ns, newest = StampRules(50.0), NOW, 0
    for seconds, nanoseconds, pause_ns in messages:
        now_ns += pause_ns
        try:
            stamp_ns = rules.apply(seconds, nanoseconds, now_ns)
        except ImageError as refusal:
            assert refusal.reason == "order"
            continue
        assert newest < stamp_ns <= now_ns + 50 * MS + len(messages)
        newest = stamp_ns
