# SPDX-License-Identifier: Apache-2.0
"""What a chunk costs: per stage a calibrated line over cache fill, times how the machine runs at present.

The form follows ALERT (ATC'20): a measured profile times a slow-down factor. The profile, ``a + b * slots``,
is fitted in warm-up. The factor of each stage is the median of its last five measured/profile ratios, so one
outlier moves nothing and a real change shows after three chunks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from vla_edge_ros import quantiles
from vla_edge_ros.runtime.probing import is_usable
from vla_edge_ros.types import ChunkTimes

LEVEL_SAMPLES = 5  # the median of five ignores two outliers and follows a change after three samples
SPREAD_SAMPLES = 64
MAX_SPREAD = 0.3  # a wider spread is a change in progress, which the level follows; do not refuse for it
MIN_EVIDENCE = 0.1  # a slow-down is believed once seen on this share of the chunk's cost
STAGES = ("vision", "prefill", "decode")


@dataclass(frozen=True, slots=True)
class CostLine:
    """``a_ms + b_ms_per_slot * slots``."""

    a_ms: float
    b_ms_per_slot: float

    def at(self, slots: int) -> float:
        return max(0.0, self.a_ms + self.b_ms_per_slot * slots)


@dataclass(frozen=True, slots=True)
class Forecast:
    """The stages of one chunk at the present level, in ms; looked at again before each of them."""

    vision_ms: float
    prefill_ms: float
    step_ms: float
    steps: int
    between_ms: float  # what passes between the stages, and the spread that is planned for

    @property
    def chunk_ms(self) -> float:
        """The whole chunk."""
        return self.vision_ms + self.prefill_ms + self.steps * self.step_ms + self.between_ms

    def rest_ms(self, so_far: ChunkTimes) -> float:
        """The stages that have not run yet; after the prefill at least the step that is asked for."""
        if so_far.prefill_ms > 0:
            return max(1, self.steps - len(so_far.decode_ms)) * self.step_ms
        rest = self.prefill_ms + self.steps * self.step_ms
        return rest if so_far.vision_ms > 0 else rest + self.vision_ms

    def next_ms(self, so_far: ChunkTimes) -> float:
        """The stage that runs next."""
        if so_far.prefill_ms > 0:
            return self.step_ms
        return self.prefill_ms if so_far.vision_ms > 0 else self.vision_ms

    def slow_down(self, so_far: ChunkTimes) -> float:
        """Measured over forecast of the latest kind of stage; 1 while that is too little of a chunk to tell.

        A vision stage of 0.1 ms that takes 0.3 ms says nothing about the rest, and one stall in an early
        stage is over once the next stage runs at its usual speed.
        """
        enough_ms = MIN_EVIDENCE * (self.vision_ms + self.prefill_ms + self.steps * self.step_ms)
        for measured_ms, forecast_ms in (
            (sum(so_far.decode_ms), len(so_far.decode_ms) * self.step_ms),
            (so_far.prefill_ms, self.prefill_ms),
            (so_far.vision_ms, self.vision_ms),
        ):
            if measured_ms > 0 and forecast_ms > enough_ms:
                return measured_ms / forecast_ms
        return 1.0


def fit_line(points: Iterable[tuple[int, float]]) -> CostLine:
    """Least squares over the medians of each cache fill, so that one bad sample of a fill does not count.

    A cost does not fall as the cache fills: a negative slope is noise and becomes the level line.
    """
    by_fill: dict[int, list[float]] = {}
    for slots, ms in points:
        by_fill.setdefault(slots, []).append(ms)
    fills = [float(slots) for slots in by_fill]
    costs = [median(values) for values in by_fill.values()]
    mean_fill, mean_cost = fmean(fills), fmean(costs)
    variance = sum((fill - mean_fill) ** 2 for fill in fills)
    covariance = sum((fill - mean_fill) * (cost - mean_cost) for fill, cost in zip(fills, costs, strict=True))
    slope = max(0.0, covariance / variance) if variance > 0 else 0.0
    return CostLine(mean_cost - slope * mean_fill, slope)


def stage_costs(times: ChunkTimes) -> dict[str, float]:
    """The stages that ran, in ms; ``decode`` is the mean of the steps that ran."""
    costs = {"vision": times.vision_ms, "prefill": times.prefill_ms}
    if times.decode_ms:
        costs["decode"] = fmean(times.decode_ms)
    return {stage: ms for stage, ms in costs.items() if ms > 0}


class CostModel:
    """Predicts chunks in ms; ``is_ready`` after a calibration or a first whole chunk."""

    def __init__(self) -> None:
        self._lines: dict[str, CostLine] = {}
        self._ratios: dict[str, deque[float]] = {}
        self._chunk_ratios: deque[float] = deque(maxlen=SPREAD_SAMPLES)
        self._steps: deque[int] = deque(maxlen=SPREAD_SAMPLES)
        self._overheads_ms: deque[float] = deque([0.0] * LEVEL_SAMPLES, maxlen=LEVEL_SAMPLES)

    @property
    def is_ready(self) -> bool:
        return bool(self._lines)

    def steps(self, quantile: float = 0.5) -> int:
        """Decode steps to plan for: this quantile of the recent whole chunks'.

        Without drafts all take the same number. A draft saves some, few where the scene moves: a chunk that
        needs more than were planned for is looked at again before each of them.
        """
        counts = sorted(self._steps)
        return quantiles.quantile(counts, quantile) if counts else 0

    @property
    def overhead_ms(self) -> float:
        """Time a chunk spends between its stages."""
        return median(self._overheads_ms)

    def calibrate(self, samples: Sequence[ChunkTimes]) -> None:
        """Fit the profile to whole chunks; the level starts at 1, the spread from their ratios to it."""
        self._fit(samples)
        for times in samples:
            if times.completed and is_usable(times):
                self._add_ratios(times)
        for ratios in self._ratios.values():
            ratios.extend([1.0] * LEVEL_SAMPLES)  # outvotes an outlier among the first live chunks

    def calibrated_step_ms(self, slots: int) -> float:
        """One decode step on the calibrated machine, whatever the level is now."""
        return self._lines["decode"].at(slots) if "decode" in self._lines else 0.0

    def chunk_ms(self, slots: int, quantile: float = 0.5) -> float:
        """A whole chunk: profile times (level + spread), and what passes between the stages."""
        return self.forecast(slots, quantile).chunk_ms

    def forecast(self, slots: int, quantile: float = 0.5) -> Forecast:
        """A chunk's stages at the present level, planned at this quantile of the recent costs."""
        between_ms, steps = self.overhead_ms, self.steps(quantile)
        if quantile > 0.5:
            between_ms += self._profile_ms(slots, steps) * self._spread(quantile)
        vision_ms, prefill_ms, step_ms = (self._stage_ms(stage, slots) for stage in STAGES)
        return Forecast(vision_ms, prefill_ms, step_ms, steps, between_ms)

    def frame_ms(self, slots: int) -> float:
        """Embedding and prefill on the calibrated machine, whatever the level is now."""
        return sum(self._lines[stage].at(slots) for stage in ("vision", "prefill") if stage in self._lines)

    def frame_forecast(self, slots: int, quantile: float, level: float) -> Forecast:
        """Embedding and prefill with nothing behind them, at ``level`` times the profile."""
        vision_ms, prefill_ms = (
            level * self._lines[stage].at(slots) if stage in self._lines else 0.0
            for stage in ("vision", "prefill")
        )
        between_ms = self.overhead_ms
        if quantile > 0.5:
            between_ms += self.frame_ms(slots) * self._spread(quantile)
        return Forecast(vision_ms, prefill_ms, step_ms=0.0, steps=0, between_ms=between_ms)

    def _profile_ms(self, slots: int, steps: int) -> float:
        counts = {"vision": 1, "prefill": 1, "decode": steps}
        return sum(counts[stage] * line.at(slots) for stage, line in self._lines.items())

    def _spread(self, quantile: float) -> float:
        """``quantile`` less the median of the recent whole chunks' cost ratios, within [0, MAX_SPREAD]."""
        ratios = sorted(self._chunk_ratios)
        if not ratios:
            return 0.0
        # The lower neighbour, not interpolated: the largest sample alone then never counts.
        high = ratios[int(quantile * (len(ratios) - 1))]
        return min(max(high - median(ratios), 0.0), MAX_SPREAD)

    def learn_whole(self, times: ChunkTimes, overhead_ms: float) -> None:
        """Take a whole chunk. The first one stands in where there was no calibration."""
        if not self.is_ready:
            self._fit([times])
            return
        self._add_ratios(times)
        self._overheads_ms.append(overhead_ms)
        self._steps.append(len(times.decode_ms))

    def learn_aborted(self, times: ChunkTimes) -> None:
        """Take a chunk that was aborted: lower bounds, which may raise a stage's level and never lower it.

        Stages that did not run are extrapolated by the slow-down that was seen on those that did.
        """
        seen, slow_down = stage_costs(times), self.forecast(times.slots_in_use).slow_down(times)
        for stage, line in self._lines.items():
            profile_ms, level = line.at(times.slots_in_use), self._level(stage)
            ratio = seen[stage] / profile_ms if stage in seen and profile_ms > 0 else level * slow_down
            if ratio > level:
                self._ratios[stage].append(ratio)

    def learn_frame(self, times: ChunkTimes) -> None:
        """Take an embedding and a prefill with nothing behind them. They are whole, so they may lower their
        levels too; of decode steps, whole chunks and their spread they say nothing."""
        for stage, ms in stage_costs(times).items():
            self._add_ratio(stage, ms, times.slots_in_use)

    def _fit(self, samples: Sequence[ChunkTimes]) -> None:
        whole = [times for times in samples if times.completed and is_usable(times)]
        for stage in STAGES:
            points = [(t.slots_in_use, stage_costs(t)[stage]) for t in whole if stage in stage_costs(t)]
            if points:
                self._lines[stage] = fit_line(points)
                self._ratios[stage] = deque(maxlen=LEVEL_SAMPLES)
        self._steps.extend(len(times.decode_ms) for times in whole)

    def _add_ratios(self, times: ChunkTimes) -> None:
        profile_ms = 0.0
        for stage, ms in stage_costs(times).items():
            line_ms = self._add_ratio(stage, ms, times.slots_in_use)
            profile_ms += line_ms * (len(times.decode_ms) if stage == "decode" else 1)
        if profile_ms > 0:
            self._chunk_ratios.append(times.total_ms / profile_ms)

    def _add_ratio(self, stage: str, ms: float, slots: int) -> float:
        """Note what ``stage`` took beside its profile, which is returned; 0 where there is none."""
        line_ms = self._lines[stage].at(slots) if stage in self._lines else 0.0
        if line_ms > 0:
            self._ratios[stage].append(ms / line_ms)
        return line_ms

    def _level(self, stage: str) -> float:
        ratios = self._ratios[stage]
        return median(ratios) if ratios else 1.0

    def _stage_ms(self, stage: str, slots: int) -> float:
        return self._lines[stage].at(slots) * self._level(stage) if stage in self._lines else 0.0
