# SPDX-License-Identifier: Apache-2.0
"""How far a number of a run can be trusted, and whether two of them differ.

Cycles are no independent trials: a machine that is busy for a second spoils thirty of them. So samples are
taken together in blocks of a second. Where there are three trials or more on each side, what differs from
start to start is counted too, by Student's t distribution over trials.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.quantiles import quantile
from vla_edge_ros.wilson import Z_95, wilson_interval

Samples = NDArray[np.float64]
RESAMPLES = 400
TOGETHER = 20  # resamples in memory at a time
TRIALS_FOR_STARTS = 3  # fewer say nothing of what differs from start to start


@dataclass(frozen=True, slots=True)
class Estimate:
    """``value`` of ``n`` samples of ``trials`` trials, with a 95 % interval. All NaN where n is 0."""

    value: float
    low: float
    high: float
    n: int
    trials: int


@dataclass(frozen=True, slots=True)
class Difference:
    """Second less first. ``is_clear``: 0 lies outside of the interval, widened for how many were looked at.

    ``counts_starts``: whether the interval holds what differs from start to start.
    """

    value: float
    low: float
    high: float
    is_clear: bool
    counts_starts: bool


def blocks(trials: Sequence[Samples], size: int) -> list[Samples]:
    """Each trial cut into pieces of ``size`` samples; a short rest joins the one before."""
    pieces = []
    for samples in trials:
        count = max(1, round(len(samples) / size)) if len(samples) else 0
        pieces += list(np.array_split(samples, count)) if count else []
    return pieces


def design_effect(pieces: Sequence[Samples]) -> float:
    """How many times wider the variance of a share is than that of independent samples; at least 1.

    By the variance of the pieces' sums about their expectation (ratio estimator; Cochran 1977, 6.3).
    """
    sizes = np.array([len(piece) for piece in pieces], np.float64)
    n = sizes.sum()
    if len(pieces) < 2:
        return 1.0
    share = sum(float(piece.sum()) for piece in pieces) / n
    if not 0.0 < share < 1.0:
        return 1.0
    residuals = np.array([piece.sum() for piece in pieces]) - share * sizes
    variance = float((residuals**2).sum()) * len(pieces) / (len(pieces) - 1) / n**2
    return max(1.0, variance / (share * (1 - share) / n))


def rate_interval(pieces: Sequence[Samples], z: float = Z_95) -> tuple[float, float, float]:
    """Share of ones with its interval: Wilson's for as many independent samples as the pieces are worth."""
    n = sum(len(piece) for piece in pieces)
    ones = sum(float(piece.sum()) for piece in pieces)
    effect = design_effect(pieces)
    low, high = wilson_interval(ones / effect, max(1.0, n / effect), z)
    return ones / n, low, high


def quantile_error(pieces: Sequence[Samples], share: float) -> tuple[float, float]:
    """The quantile of all samples, and its standard error by resampling whole pieces (block bootstrap)."""
    samples = np.concatenate(pieces)
    order = np.argsort(samples, kind="stable")
    ordered = samples[order]
    value = float(quantile(ordered, share))
    if len(pieces) < 2:
        return value, math.nan
    piece_of = np.repeat(np.arange(len(pieces)), [len(piece) for piece in pieces])[order]
    rng = np.random.default_rng(0)  # the same data, the same report
    drawn = rng.integers(0, len(pieces), (RESAMPLES, len(pieces)))
    times = np.stack([np.bincount(row, minlength=len(pieces)) for row in drawn]).astype(np.int32)
    found = np.concatenate(
        [
            ordered[_places(times[first : first + TOGETHER][:, piece_of], share)]
            for first in range(0, RESAMPLES, TOGETHER)
        ]
    )
    return value, float(found.std(ddof=1))


def _places(times: NDArray[np.int32], share: float) -> NDArray[np.int64]:
    """Where each row's quantile stands; ``times`` ``[rows, n]``: how often it has each sorted sample."""
    counted = np.cumsum(times, axis=1)
    places = np.ceil(share * (counted[:, -1] - 1))
    found: NDArray[np.int64] = (counted <= places[:, None]).sum(axis=1)
    return found


def student_quantile(probability: float, freedom: float) -> float:
    """Of Student's t distribution: with tan(angle) = t / sqrt(freedom) its density is a power of a cosine."""
    angles = np.linspace(0.0, math.pi / 2, 20_001)
    density = np.cos(angles) ** (freedom - 1)
    area = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    angle = float(np.interp(abs(2 * probability - 1), area / area[-1], angles))
    return math.copysign(math.sqrt(freedom) * math.tan(angle), probability - 0.5)


def z_for(comparisons: int) -> float:
    """Two-sided 95 % for all of ``comparisons`` together (Bonferroni)."""
    return NormalDist().inv_cdf(1 - 0.025 / max(1, comparisons))


def rate_difference(
    first: Sequence[Samples], second: Sequence[Samples], size: int, comparisons: int
) -> Difference:
    """Of two shares, by trial; Newcombe's interval (1998, method 10) from Wilson's of each."""
    return _with_starts(
        first,
        second,
        lambda samples: float(samples.mean()),
        lambda z: _newcombe(blocks(first, size), blocks(second, size), z),
        comparisons,
    )


def quantile_difference(
    first: Sequence[Samples], second: Sequence[Samples], share: float, size: int, comparisons: int
) -> Difference:
    """Of two quantiles, by trial."""
    (a, error_a), (b, error_b) = (quantile_error(blocks(side, size), share) for side in (first, second))
    error = math.hypot(error_a, error_b)
    return _with_starts(
        first,
        second,
        lambda samples: float(quantile(np.sort(samples), share)),
        lambda z: (b - a, b - a - z * error, b - a + z * error),
        comparisons,
    )


def _newcombe(first: Sequence[Samples], second: Sequence[Samples], z: float) -> tuple[float, float, float]:
    (a, a_low, a_high), (b, b_low, b_high) = rate_interval(first, z), rate_interval(second, z)
    return (
        b - a,
        b - a - math.hypot(b - b_low, a_high - a),
        b - a + math.hypot(b_high - b, a - a_low),
    )


def _with_starts(
    first: Sequence[Samples],
    second: Sequence[Samples],
    value_of: Callable[[Samples], float],
    within: Callable[[float], tuple[float, float, float]],
    comparisons: int,
) -> Difference:
    value, low, high = within(Z_95)
    _, wide_low, wide_high = within(z_for(comparisons))
    counts_starts = min(len(first), len(second)) >= TRIALS_FOR_STARTS
    if counts_starts:
        values = [[value_of(samples) for samples in side if len(samples)] for side in (first, second)]
        between, freedom = _welch(*values)
        centre = float(np.mean(values[1]) - np.mean(values[0]))
        for_one, for_all = (
            student_quantile(1 - 0.025 / count, freedom) * between for count in (1, max(1, comparisons))
        )
        low, high = min(low, centre - for_one), max(high, centre + for_one)
        wide_low, wide_high = min(wide_low, centre - for_all), max(wide_high, centre + for_all)
    is_clear = bool(wide_low > 0 or wide_high < 0)  # false where a bound is not known
    return Difference(value, low, high, is_clear, counts_starts)


def _welch(first: Sequence[float], second: Sequence[float]) -> tuple[float, float]:
    """Standard error of the difference of two means, and its degrees of freedom (Welch 1947)."""
    a, b = (float(np.var(side, ddof=1)) / len(side) for side in (first, second))
    if a + b == 0:
        return 0.0, float(len(first) + len(second) - 2)
    freedom = (a + b) ** 2 / (a**2 / (len(first) - 1) + b**2 / (len(second) - 1))
    return math.sqrt(a + b), freedom
