# SPDX-License-Identifier: Apache-2.0
"""Counters and latencies of a run, written by the answering thread, read by diagnostics and the demo."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vla_edge_ros.quantiles import quantile
from vla_edge_ros.types import (
    NS_PER_MS,
    NS_PER_S,
    ActionSource,
    CycleRecord,
    Outcome,
    Reason,
    believable_age_ms,
)

# Outcomes in which a chunk was started and gave no action in time.
DEADLINE_MISSES = (Outcome.ABORTED, Outcome.LATE)

RECENT_CYCLES = 60

# Stamps that run ahead of steady time further than this are of two clocks. A simulation may run so many times
# as fast as the world; a step of the clock that is shorter than a second does no harm.
FASTEST_CLOCK = 100
CLOCK_STEP_NS = NS_PER_S


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Samples of a window (``quantiles.quantile``); all zero where the window is empty."""

    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    max: float = 0.0

    @classmethod
    def of(cls, samples: Sequence[float]) -> Quantiles:
        if not samples:
            return cls()
        ordered = np.sort(samples)
        p50, p95, p99 = (float(quantile(ordered, share)) for share in (0.5, 0.95, 0.99))
        return cls(p50, p95, p99, float(ordered[-1]))


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    """Counts since the start of the run; ``window_*`` and quantiles are of its last cycles."""

    cycles: int
    outcomes: dict[Outcome, int]
    sources: dict[ActionSource, int]
    refusals: dict[Reason, int]
    latency_ms: Quantiles  # grid point to publish, fresh actions
    sensor_to_action_ms: Quantiles  # camera stamp to published, fresh actions
    remembered_frames: int  # kept without an action: of refused cycles, and of aborted ones
    longest_memory_gap_ms: float  # by camera stamps: how long nothing was kept while the camera went on
    late_messages: int  # messages whose publish ended after the deadline
    latest_message_ms: float  # how long after the deadline the latest of these was out; 0 without one
    dropped_results: int  # finished chunks that the watchdog had answered for
    skipped_cycles: int  # grid points the reasoning thread slept through; the watchdog answered for them
    unanswered_cycles: int  # no message: the whole process slept through them, or they were overtaken
    rejected_samples: int  # chunk times since configuration that admission could not learn from
    overtaken_cycles: int  # claimed by the watchdog, then left out: a later cycle had been answered meanwhile
    longest_repeat: int
    window_cycles: int
    window_deadline_misses: int
    window_repeats: int
    window_zeros: int
    window_outcomes: dict[Outcome, int]
    recent_outcomes: dict[Outcome, int]  # of the last RECENT_CYCLES: what is, rather than what was
    last: CycleRecord | None
    last_error: str  # the engine's last one in this run

    @property
    def deadline_misses(self) -> int:
        return sum(self.outcomes.get(outcome, 0) for outcome in DEADLINE_MISSES)


class RunMetrics:
    """Thread-safe; ``add`` costs a few microseconds, ``snapshot`` sorts the window.

    ``rejected_samples`` is asked at each snapshot: admission counts those, and the run goes on meanwhile.
    """

    def __init__(
        self,
        deadline_ms: float,
        window: int = 600,
        rejected_samples: Callable[[], int] = lambda: 0,
        steady_ns: Callable[[], int] = time.monotonic_ns,
    ):
        self._deadline_ms = deadline_ms
        self._window = window
        self._rejected_samples = rejected_samples
        self._steady_ns = steady_ns
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """Start a new run."""
        with self._lock:
            self._outcomes: Counter[Outcome] = Counter()
            self._sources: Counter[ActionSource] = Counter()
            self._refusals: Counter[Reason] = Counter()
            self._answered: deque[Outcome] = deque(maxlen=self._window)
            self._missed: deque[bool] = deque(maxlen=self._window)
            self._repeated: deque[bool] = deque(maxlen=self._window)
            self._zeroed: deque[bool] = deque(maxlen=self._window)
            self._latencies: deque[float] = deque(maxlen=self._window)
            self._sensor_to_action: deque[float] = deque(maxlen=self._window)
            self._kept_stamp_ns: int | None = None
            self._kept_at_ns = 0
            self._longest_gap_ns = 0
            self._remembered = 0
            self._late_messages = 0
            self._latest_message_ms = 0.0
            self._dropped_results = 0
            self._skipped = 0
            self._unanswered = 0
            self._overtaken = 0
            self._newest_cycle: int | None = None
            self._longest_repeat = 0
            self._last: CycleRecord | None = None
            self._last_error = ""

    def add(self, record: CycleRecord, published_ms: float, sensor_to_action_ms: float = 0.0) -> None:
        """Count one answered cycle whose publish ended ``published_ms`` after its grid point.

        ``sensor_to_action_ms``: how old its frame was by then.
        """
        with self._lock:
            self._outcomes[record.outcome] += 1
            self._sources[record.source] += 1
            self._answered.append(record.outcome)
            self._missed.append(record.outcome in DEADLINE_MISSES)
            self._repeated.append(record.source is ActionSource.REPEAT)
            self._zeroed.append(record.source is ActionSource.ZERO)
            if record.outcome is Outcome.REFUSED and record.decision is not None:
                self._refusals[record.decision.reason] += 1
            if record.source is ActionSource.FRESH:
                self._latencies.append(record.latency_ms)
                if not math.isnan(believable_age_ms(sensor_to_action_ms)):
                    self._sensor_to_action.append(sensor_to_action_ms)
            if record.source is not ActionSource.NONE and published_ms > self._deadline_ms:
                self._late_messages += 1
                self._latest_message_ms = max(self._latest_message_ms, published_ms - self._deadline_ms)
            if record.source is ActionSource.REPEAT:
                self._longest_repeat = max(self._longest_repeat, record.repeat_streak)
            self._skipped += record.skipped_cycles
            self._note_memory(record)
            self._count_unanswered(record.cycle)
            self._last = record
            self._last_error = record.error or self._last_error

    def _count_unanswered(self, cycle: int) -> None:
        """By the gaps in what was answered, which is in the order of cycles."""
        if self._newest_cycle is not None:
            self._unanswered += max(0, cycle - self._newest_cycle - 1)
        self._newest_cycle = cycle

    def _note_memory(self, record: CycleRecord) -> None:
        """A cycle whose frame is not kept leaves a hole in the memory, in just the heavy moments."""
        now_ns = self._steady_ns()
        if record.frame_stamp_ns and self._kept_stamp_ns is not None:
            gap_ns = record.frame_stamp_ns - self._kept_stamp_ns
            # Else the clock of the stamps was changed or set forward meanwhile, and nobody knows the gap.
            if gap_ns <= FASTEST_CLOCK * (now_ns - self._kept_at_ns) + CLOCK_STEP_NS:
                self._longest_gap_ns = max(self._longest_gap_ns, gap_ns)
        self._remembered += record.remembered
        if record.outcome is Outcome.ACTED or record.remembered:
            self._kept_stamp_ns, self._kept_at_ns = record.frame_stamp_ns, now_ns

    def count_remembered(self, stamp_ns: int) -> None:
        """A frame that was kept behind the answer of its refused cycle."""
        with self._lock:
            self._remembered += 1
            self._kept_stamp_ns, self._kept_at_ns = stamp_ns, self._steady_ns()

    def note_untold(self, record: CycleRecord) -> None:
        """A cycle that fell back when the watchdog had answered it: its frame may be kept all the same."""
        if record.remembered:
            with self._lock:
                self._note_memory(record)

    def note_error(self, error: str) -> None:
        """An engine's error behind an answer, which no record tells."""
        with self._lock:
            self._last_error = error

    def count_dropped_result(self, record: CycleRecord) -> None:
        """A finished chunk whose cycle the watchdog had answered: its frame is kept all the same."""
        with self._lock:
            self._dropped_results += 1
            self._note_memory(record)

    def count_overtaken(self) -> None:
        """A cycle that got no message, because a later one had been answered before its turn came."""
        with self._lock:
            self._overtaken += 1

    def snapshot(self) -> MetricsSnapshot:
        with self._lock:
            # Sorted and counted outside the lock: the answering thread may be waiting.
            answered = list(self._answered)
            latencies, sensor_to_action = list(self._latencies), list(self._sensor_to_action)
            counts: dict[str, Any] = {
                "cycles": sum(self._outcomes.values()),
                "outcomes": dict(self._outcomes),
                "sources": dict(self._sources),
                "refusals": dict(self._refusals),
                "remembered_frames": self._remembered,
                "late_messages": self._late_messages,
                "latest_message_ms": self._latest_message_ms,
                "dropped_results": self._dropped_results,
                "skipped_cycles": self._skipped,
                "unanswered_cycles": self._unanswered,
                "rejected_samples": self._rejected_samples(),
                "overtaken_cycles": self._overtaken,
                "longest_repeat": self._longest_repeat,
                "longest_memory_gap_ms": self._longest_gap_ns / NS_PER_MS,
                "window_cycles": len(self._missed),
                "window_deadline_misses": sum(self._missed),
                "window_repeats": sum(self._repeated),
                "window_zeros": sum(self._zeroed),
                "last": self._last,
                "last_error": self._last_error,
            }
        return MetricsSnapshot(
            latency_ms=Quantiles.of(latencies),
            sensor_to_action_ms=Quantiles.of(sensor_to_action),
            window_outcomes=dict(Counter(answered)),
            recent_outcomes=dict(Counter(answered[-RECENT_CYCLES:])),
            **counts,
        )
