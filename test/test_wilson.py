# SPDX-License-Identifier: Apache-2.0
"""Wilson's interval against its definition, and against a published table."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vla_edge_ros.wilson import Z_95, wilson_interval


@given(st.integers(1, 2000), st.data())
def test_its_ends_are_where_the_score_test_is_just_met(trials, data):
    successes = data.draw(st.integers(0, trials))
    for end in wilson_interval(successes, trials):
        if 1e-9 < end < 1 - 1e-9:
            deviation = abs(successes / trials - end) / math.sqrt(end * (1 - end) / trials)
            assert deviation == pytest.approx(Z_95, rel=1e-6)


def test_known_values():
    """Newcombe (Statistics in Medicine, 1998), table I, method 3."""
    assert wilson_interval(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson_interval(15, 148) == pytest.approx((0.0624, 0.1605), abs=5e-5)
    assert wilson_interval(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)
    assert wilson_interval(1, 29) == pytest.approx((0.0061, 0.1718), abs=5e-5)


@pytest.mark.parametrize(("successes", "trials"), [(-1, 5), (6, 5), (0, 0)])
def test_impossible_counts_are_refused(successes, trials):
    with pytest.raises(ValueError, match="successes"):
        wilson_interval(successes, trials)
