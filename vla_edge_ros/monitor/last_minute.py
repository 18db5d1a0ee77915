# SPDX-License-Identifier: Apache-2.0
"""The cycles of the last minute, second by second."""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass, field

from vla_edge_ros.types import ActionSource, Outcome, Reason

SECONDS = 60
# A control period is a few milliseconds at least; who publishes faster fills no memory here.
MOST_LATENCIES = 1000
OTHER = "other"  # a word that this package does not send

OUTCOMES = frozenset(outcome.value for outcome in Outcome)
SOURCES = frozenset(source.value for source in ActionSource)
REFUSALS = frozenset(reason.value for reason in Reason if not reason.admits)


@dataclass(slots=True)
class Cycles:
    """``latencies_ms``: of fresh actions, those that were measured. ``refusals`` by admission's reason."""

    outcomes: Counter[str] = field(default_factory=Counter)
    sources: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    latencies_ms: list[float] = field(default_factory=list)
    unseen: int = 0  # cycles whose message did not come

    @property
    def total(self) -> int:
        return self.outcomes.total()

    @property
    def fresh(self) -> int:
        return self.sources[ActionSource.FRESH.value]

    def count(self, outcome: str, source: str, reason: str, latency_ms: float, unseen: int = 0) -> None:
        """One message; words that are not this package's count as ``OTHER``."""
        self.outcomes[outcome if outcome in OUTCOMES else OTHER] += 1
        self.sources[source if source in SOURCES else OTHER] += 1
        self.unseen += unseen
        if outcome == Outcome.REFUSED.value:
            self.refusals[reason if reason in REFUSALS else OTHER] += 1
        is_measured = source == ActionSource.FRESH.value and not math.isnan(latency_ms)
        if is_measured and len(self.latencies_ms) < MOST_LATENCIES:
            self.latencies_ms.append(latency_ms)

    def add(self, other: Cycles) -> None:
        self.outcomes.update(other.outcomes)
        self.sources.update(other.sources)
        self.refusals.update(other.refusals)
        self.latencies_ms += other.latencies_ms
        self.unseen += other.unseen


class LastMinute:
    """Times are seconds of a steady clock."""

    def __init__(self) -> None:
        self._seconds: deque[tuple[int, Cycles]] = deque(maxlen=SECONDS)

    def second(self, now_s: float) -> Cycles:
        """The second that goes on, to count in."""
        number = int(now_s)
        if not self._seconds or self._seconds[-1][0] < number:
            self._seconds.append((number, Cycles()))
        return self._seconds[-1][1]

    def by_second(self, now_s: float) -> list[Cycles | None]:
        """``SECONDS`` entries, the oldest first, the last one still going on; None: nothing came."""
        known = dict(self._seconds)
        return [known.get(int(now_s) - back) for back in reversed(range(SECONDS))]

    def total(self, now_s: float) -> Cycles:
        total = Cycles()
        for cycles in self.by_second(now_s):
            if cycles is not None:
                total.add(cycles)
        return total
