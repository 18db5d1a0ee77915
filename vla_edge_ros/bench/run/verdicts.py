# SPDX-License-Identifier: Apache-2.0
"""In words: what differs between two sides by more than chance, and what does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from vla_edge_ros.bench.run.blocks import Value, shown
from vla_edge_ros.bench.run.intervals import TRIALS_FOR_STARTS, Difference, Estimate
from vla_edge_ros.bench.run.metrics import METRICS, Metric
from vla_edge_ros.bench.run.trial_data import TrialData

# Below this a difference may be real and changes nothing: of the deadline, and of all cycles.
SMALL_SHARE_OF_DEADLINE = 0.01
SMALL_SHARE = 0.001

SAME, NOISE, SMALL, ONCE, REAL = "equal", "noise", "real but small", "clear in these starts", "real"
MACHINE = "no more than one rule under two names"
UNCLEAR = (SAME, NOISE, MACHINE)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One metric on two sides. ``verdict``: one of the words above."""

    first: str
    second: str
    metric: str
    kind: str
    a: Estimate
    b: Estimate
    difference: Difference
    verdict: str

    @property
    def sentence(self) -> str:
        a, b = (shown_with_unit(self.kind, value) for value in (self.a.value, self.b.value))
        what = f"{self.metric}: {a} for {self.first}, {b} for {self.second}"
        if self.verdict == SAME:
            return f"{what}: equal."
        span = (
            f"difference {_signed(self.kind, self.difference.value)}, 95 % interval "
            f"{_signed(self.kind, self.difference.low)} to {_signed(self.kind, self.difference.high)}"
        )
        return f"{what} ({span}): {_WORDS[self.verdict]}."

    def row(self) -> list[Value]:
        """Of ``COLUMNS``."""
        sides = [shown_with_unit(self.kind, estimate.value) for estimate in (self.a, self.b)]
        spread = [
            f"{shown(self.kind, estimate.low)} to {shown(self.kind, estimate.high)}"
            for estimate in (self.a, self.b)
        ]
        difference = self.difference
        return [
            self.metric, self.first, sides[0], spread[0], self.second, sides[1], spread[1],
            _signed(self.kind, difference.value),
            f"{_signed(self.kind, difference.low)} to {_signed(self.kind, difference.high)}", self.verdict,
        ]  # fmt: skip

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


COLUMNS = tuple(
    (title, "text")
    for title in (
        "what", "first", "value", "95 %", "second", "value", "95 %", "difference", "95 %", "verdict",
    )
)  # fmt: skip

_WORDS = {
    NOISE: "within the noise",
    SMALL: "more than chance, and too small to matter (below 1 % of the deadline, or 0.1 % of cycles)",
    ONCE: (
        "more than chance explains within these starts; whether another start of the same program would show "
        f"it again, only --repeats {TRIALS_FOR_STARTS} or more can tell"
    ),
    REAL: "more than chance, also from start to start",
    MACHINE: "no more than fifo and sliding_window differ here, which are one rule: noise of the machine",
}


def compare_sides(
    first: tuple[str, Sequence[TrialData]],
    second: tuple[str, Sequence[TrialData]],
    comparisons: int,
) -> list[Comparison]:
    """Of every metric that both sides have; ``comparisons``: how many are looked at in all."""
    found = []
    for metric in METRICS:
        difference = metric.difference(first[1], second[1], comparisons)
        if difference is None:
            continue
        a, b = metric.estimate(first[1]), metric.estimate(second[1])
        deadline_ms = max(first[1][0].deadline_ms, second[1][0].deadline_ms)
        verdict = judge(metric, a, b, difference, deadline_ms)
        found.append(Comparison(first[0], second[0], metric.title, metric.kind, a, b, difference, verdict))
    return found


def by_control(found: Sequence[Comparison], control: Sequence[Comparison]) -> list[Comparison]:
    """``control``: of two names of one rule. What differs no more than they do came from the machine."""
    least = {each.metric: abs(each.difference.value) for each in control}
    return [
        replace(each, verdict=MACHINE)
        if each.verdict not in (SAME, NOISE) and abs(each.difference.value) <= least.get(each.metric, -1.0)
        else each
        for each in found
    ]


def judge(metric: Metric, a: Estimate, b: Estimate, difference: Difference, deadline_ms: float) -> str:
    if a.value == b.value:
        return SAME
    if not difference.is_clear:
        return NOISE
    small = SMALL_SHARE if metric.share is None else SMALL_SHARE_OF_DEADLINE * deadline_ms
    if abs(difference.value) < small:
        return SMALL
    return REAL if difference.counts_starts else ONCE


def shown_with_unit(kind: str, value: float) -> str:
    return shown(kind, value) + (" ms" if kind == "ms" else "")


def _signed(kind: str, value: float) -> str:
    text = shown(kind, value)
    return text if text.startswith(("-", "–")) else f"+{text}"
