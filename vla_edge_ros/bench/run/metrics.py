# SPDX-License-Identifier: Apache-2.0
"""What two policies or two runs are compared by: each number with its samples, its unit and its interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from vla_edge_ros.bench.run.intervals import (
    Difference,
    Estimate,
    Samples,
    blocks,
    quantile_difference,
    quantile_error,
    rate_difference,
    rate_interval,
)
from vla_edge_ros.bench.run.trial_data import TrialData
from vla_edge_ros.runtime.metrics import DEADLINE_MISSES
from vla_edge_ros.types import ActionSource, CycleRecord
from vla_edge_ros.wilson import Z_95


def frame_to_action_ms(record: CycleRecord) -> float:
    """From the picture's stamp to just before the publish: its age when it was taken, and what came after.

    The age is taken just before admission is asked, whose ``elapsed_ms`` counts from the grid point.
    """
    elapsed_ms = record.decision.elapsed_ms if record.decision is not None else 0.0
    return record.frame_age_ms + record.latency_ms - elapsed_ms


def fresh(cycles: Sequence[CycleRecord]) -> list[CycleRecord]:
    return [record for record in cycles if record.source is ActionSource.FRESH]


def _misses(trial: TrialData) -> list[float]:
    return [float(record.outcome in DEADLINE_MISSES) for record in trial.cycles]


def _late(trial: TrialData) -> list[float]:
    published = (record for record in trial.cycles if record.source is not ActionSource.NONE)
    return [float(record.latency_ms > trial.deadline_ms) for record in published]


def _fallbacks(trial: TrialData) -> list[float]:
    return [float(record.source is not ActionSource.FRESH) for record in trial.cycles]


def _latency(trial: TrialData) -> list[float]:
    return [record.latency_ms for record in fresh(trial.cycles)]


def _to_action(trial: TrialData) -> list[float]:
    return [frame_to_action_ms(record) for record in fresh(trial.cycles)]


def _chunk(trial: TrialData) -> list[float]:
    return [r.times.total_ms for r in trial.cycles if r.times is not None and r.times.completed]


def _succeeded(trial: TrialData) -> list[float]:
    return [float(episode.succeeded) for episode in trial.episodes]


@dataclass(frozen=True, slots=True)
class Metric:
    """``share``: of the quantile; None for a rate."""

    key: str
    title: str
    samples: Callable[[TrialData], list[float]]
    share: float | None = None

    @property
    def kind(self) -> str:
        """As ``blocks.shown`` takes it."""
        return "share" if self.share is None else "ms"

    def of(self, trials: Sequence[TrialData]) -> list[Samples]:
        """A list of samples a trial that has any."""
        found = (np.array(self.samples(trial), np.float64) for trial in trials)
        return [samples for samples in found if len(samples)]

    def estimate(self, trials: Sequence[TrialData]) -> Estimate:
        samples = self.of(trials)
        if not samples:
            return Estimate(math.nan, math.nan, math.nan, 0, 0)
        n, pieces = sum(map(len, samples)), blocks(samples, trials[0].cycles_a_second)
        if self.share is None:
            return Estimate(*rate_interval(pieces), n, len(samples))
        value, error = quantile_error(pieces, self.share)
        return Estimate(value, value - Z_95 * error, value + Z_95 * error, n, len(samples))

    def difference(
        self, first: Sequence[TrialData], second: Sequence[TrialData], comparisons: int
    ) -> Difference | None:
        """None where one side has no samples."""
        a, b = self.of(first), self.of(second)
        if not a or not b:
            return None
        size = max(first[0].cycles_a_second, second[0].cycles_a_second)
        if self.share is None:
            return rate_difference(a, b, size, comparisons)
        return quantile_difference(a, b, self.share, size, comparisons)


METRICS = (
    Metric("miss_rate", "deadline misses", _misses),
    Metric("late_rate", "late messages", _late),
    Metric("fallback_rate", "cycles without a fresh action", _fallbacks),
    Metric("latency_p50", "latency, median", _latency, 0.5),
    Metric("latency_p99", "latency, 99th percentile", _latency, 0.99),
    Metric("to_action_p50", "picture to action, median", _to_action, 0.5),
    Metric("to_action_p99", "picture to action, 99th percentile", _to_action, 0.99),
    Metric("chunk_p50", "one chunk, median", _chunk, 0.5),
    Metric("success", "episodes that succeeded", _succeeded),
    Metric("chunk_p99", "one chunk, 99th percentile", _chunk, 0.99),
)
