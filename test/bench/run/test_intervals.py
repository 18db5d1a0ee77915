# SPDX-License-Identifier: Apache-2.0
"""Intervals against tables and simulations of their own: coverage, clumps, and what must not look clear."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vla_edge_ros.bench.run.intervals import (
    RESAMPLES,
    blocks,
    design_effect,
    quantile_difference,
    quantile_error,
    rate_difference,
    rate_interval,
    student_quantile,
    z_for,
)
from vla_edge_ros.quantiles import quantile
from vla_edge_ros.wilson import wilson_interval

SECOND = 30


@pytest.mark.parametrize(
    ("freedom", "expected"), [(1, 12.706), (2, 4.303), (4, 2.776), (10, 2.228), (30, 2.042), (1000, 1.962)]
)
def test_student_s_quantiles_are_those_of_printed_tables(freedom, expected):
    assert student_quantile(0.975, freedom) == pytest.approx(expected, rel=2e-3)
    assert student_quantile(0.025, freedom) == pytest.approx(-expected, rel=2e-3)


def test_z_for_one_comparison_is_that_of_95_percent():
    assert z_for(1) == pytest.approx(1.95996, abs=1e-4)
    assert z_for(20) == pytest.approx(3.0233, abs=1e-3)  # 0.025 / 20 in each tail


@given(st.lists(st.integers(0, 200), max_size=4), st.integers(1, 60))
def test_blocks_hold_every_sample_once(lengths, size):
    trials = [np.arange(length, dtype=float) + 1000 * i for i, length in enumerate(lengths)]
    pieces = blocks(trials, size)
    assert np.array_equal(np.concatenate([*pieces, []]), np.concatenate([*trials, []]))
    assert all(0 < len(piece) < 2 * size + 1 for piece in pieces)


def test_independent_events_have_a_design_effect_near_one():
    rng = np.random.default_rng(1)
    effects = [design_effect(blocks([(rng.random(3000) < 0.1).astype(float)], SECOND)) for _ in range(50)]
    assert 1.0 <= np.mean(effects) < 1.2


def test_events_that_fill_whole_seconds_count_as_one_each():
    """A second is one trial then: the effect is the number of cycles in it."""
    seconds = np.random.default_rng(2).random(400) < 0.3
    samples = np.repeat(seconds, SECOND).astype(float)
    assert design_effect(blocks([samples], SECOND)) == pytest.approx(SECOND, rel=0.02)
    share, low, high = rate_interval(blocks([samples], SECOND))
    assert share == pytest.approx(seconds.mean())
    assert (low, high) == pytest.approx(wilson_interval(int(seconds.sum()), 400), abs=2e-3)


def test_no_event_has_an_upper_end_above_zero():
    share, low, high = rate_interval(blocks([np.zeros(900)], SECOND))
    assert share == 0.0 and low == pytest.approx(0.0, abs=1e-12) and 0 < high < 0.01


def test_the_standard_error_of_a_median_is_that_of_theory():
    """For n normal samples: 1.2533 / sqrt(n)."""
    rng = np.random.default_rng(3)
    errors = [quantile_error(blocks([rng.normal(size=3000)], SECOND), 0.5)[1] for _ in range(20)]
    assert np.mean(errors) == pytest.approx(1.2533 / math.sqrt(3000), rel=0.15)


@pytest.mark.parametrize("trials", [1, 4])
def test_the_same_machine_twice_is_rarely_called_a_difference(trials):
    rng = np.random.default_rng(4)

    def side() -> list[np.ndarray]:
        busy = np.repeat(rng.random(20 * trials) < 0.2, SECOND)
        samples = rng.gamma(4.0, 2.0, 600 * trials) + 5.0 * busy
        return np.split(samples, trials)

    clear = sum(quantile_difference(side(), side(), 0.5, SECOND, 1).is_clear for _ in range(40))
    assert clear <= 7  # 2 expected


def test_resampling_whole_seconds_is_what_it_says():
    """The same draws by the plain way: pieces put one behind the other, sorted, the quantile taken."""
    rng = np.random.default_rng(8)
    pieces = [rng.normal(size=size) for size in (30, 31, 7, 30)]
    draws = np.random.default_rng(0).integers(0, 4, (RESAMPLES, 4))
    plain = [quantile(np.sort(np.concatenate([pieces[i] for i in draw])), 0.9) for draw in draws]
    assert quantile_error(pieces, 0.9)[1] == pytest.approx(np.std(plain, ddof=1))


def test_starts_that_differ_hide_what_would_be_clear_within_one():
    """Each start has an offset of its own: two single starts look clear, three of each do not."""
    rng = np.random.default_rng(5)
    offsets = ([0.0, 3.0, 1.0], [2.0, 0.5, 3.5])
    first, second = ([rng.normal(10 + o, 0.1, 600) for o in side] for side in offsets)
    once = quantile_difference(first[:1], second[:1], 0.5, SECOND, 1)
    assert once.is_clear and not once.counts_starts
    often = quantile_difference(first, second, 0.5, SECOND, 1)
    assert not often.is_clear and often.counts_starts
    assert often.low < 0 < often.high


def test_a_real_difference_of_rates_is_clear_and_signed():
    rng = np.random.default_rng(6)
    few, many = ((rng.random(900) < share).astype(float) for share in (0.02, 0.2))
    difference = rate_difference([few], [many], SECOND, 20)
    assert difference.is_clear and difference.low < difference.value < difference.high
    assert difference.low > 0
    assert rate_difference([many], [few], SECOND, 20).value == pytest.approx(-difference.value)


def test_one_short_trial_gives_no_verdict():
    """A single piece has no spread, so nothing is known and nothing is clear."""
    difference = quantile_difference([np.ones(10)], [np.full(10, 2.0)], 0.5, SECOND, 1)
    assert difference.value == 1.0 and not difference.is_clear and math.isnan(difference.low)
