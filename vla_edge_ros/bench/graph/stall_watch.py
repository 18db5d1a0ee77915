# SPDX-License-Identifier: Apache-2.0
"""When a process stood still: a thread that sleeps a millisecond at a time and notes when it woke up late.

It wakes up late where the machine took the processor away, or where another thread of its process kept the
GIL. ``CLOCK_MONOTONIC`` is the same in all processes of a machine, so two of these tell which: what both saw
was the machine, what one saw was in its process (or on the cores that it keeps busy).
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from vla_edge_ros.types import NS_PER_MS, NS_PER_S

SLEEP_NS = 1 * NS_PER_MS
LATE_MS = 3.0  # less is a scheduler's day, and too little to make a cycle late
KEPT = 1000  # the longest of a run


class Stall(NamedTuple):
    """A wake-up that was due at the monotonic time ``due_ns`` and came ``late_ms`` after it."""

    due_ns: int
    late_ms: float


class StallWatch:
    """``start``, ``stop``, then ``stalls`` and ``count``. One run each."""

    def __init__(self, kept: int = KEPT) -> None:
        self.count = 0  # all of them, the kept ones included
        self._kept = kept
        self._longest: list[tuple[float, int]] = []  # a heap of (late_ms, due_ns)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        # Due from here on: what holds up the thread's own start counts.
        first_due_ns = time.monotonic_ns() + SLEEP_NS
        self._thread = threading.Thread(target=self._run, args=(first_due_ns,), name="stalls", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Safe to call twice, and when not started."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def note(self, due_ns: int, woke_ns: int) -> None:
        late_ms = (woke_ns - due_ns) / NS_PER_MS
        if late_ms <= LATE_MS:
            return
        self.count += 1
        if len(self._longest) < self._kept:
            heapq.heappush(self._longest, (late_ms, due_ns))
        else:
            heapq.heappushpop(self._longest, (late_ms, due_ns))

    @property
    def stalls(self) -> list[Stall]:
        """The longest, in order of time. Ask after ``stop``."""
        return sorted(Stall(due_ns, late_ms) for late_ms, due_ns in self._longest)

    def as_json(self) -> dict[str, Any]:
        """For another process: ``from_json`` reads it."""
        return {"count": self.count, "stalls": self.stalls}

    def _run(self, due_ns: int) -> None:
        running = True
        while running:
            running = not self._stop.is_set()  # asked before the sleep: what stop() waited for is noted too
            time.sleep(SLEEP_NS / NS_PER_S)
            woke_ns = time.monotonic_ns()
            self.note(due_ns, woke_ns)
            due_ns = woke_ns + SLEEP_NS


def from_json(stalls: Iterable[tuple[int, float]]) -> list[Stall]:
    return [Stall(int(due_ns), float(late_ms)) for due_ns, late_ms in stalls]


def totals(count: int, stalls: Iterable[Stall]) -> dict[str, float]:
    return {"count": count, "max_ms": round(max((stall.late_ms for stall in stalls), default=0.0), 2)}
