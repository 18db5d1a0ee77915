# SPDX-License-Identifier: Apache-2.0
"""Exactly one answer a cycle: from the reasoning thread in time, or from the watchdog thread.

The claim by cycle number in the native watchdog decides who answers. The lock orders what follows a claim
(ladder, publish, metrics) when one thread is preempted in it while the other claims the next cycle. A thread
that is preempted between its claim and the lock comes second: its cycle is then answered by nothing, since a
controller would take what comes later for what is newer, and a repeated step would be made twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from vla_edge_ros.runtime.action_sink import ActionSink
from vla_edge_ros.runtime.fallback import FallbackLadder
from vla_edge_ros.runtime.metrics import RunMetrics
from vla_edge_ros.types import NS_PER_MS, Action, ActionSource, CycleRecord, Outcome


class Claims(Protocol):
    """What is used of the native ``DeadlineWatchdog`` here."""

    def claim(self, cycle: int) -> bool: ...


class CycleAnswers:
    """Turns an outcome into a published record, once a cycle."""

    def __init__(
        self,
        claims: Claims,
        ladder: FallbackLadder,
        sink: ActionSink,
        metrics: RunMetrics,
        frame_time_ns: Callable[[], int],
        period_ns: int,
        steady_ns: Callable[[], int] = time.monotonic_ns,
    ):
        self._claims = claims
        self._ladder = ladder
        self._sink = sink
        self._metrics = metrics
        self._frame_time_ns = frame_time_ns
        self._period_ns = period_ns
        self._steady_ns = steady_ns
        self._lock = threading.Lock()
        self._open = False
        self._newest: int | None = None  # the latest cycle of this run that was answered

    def open(self) -> None:
        """Begin a run. An action of an earlier run is never repeated."""
        with self._lock:
            self._ladder.forget()
            self._newest = None
            self._open = True

    def act(self, record: CycleRecord, action: Action, scheduled_ns: int) -> CycleRecord | None:
        """Publish a fresh action; None where the watchdog was first: the result is dropped."""
        with self._lock:
            if not self._may_answer(record.cycle, scheduled_ns):
                self._metrics.count_dropped_result(record)
                return None
            self._ladder.acted(action)
            return self._publish(record, ActionSource.FRESH, action, scheduled_ns)

    def fall_back(self, record: CycleRecord, scheduled_ns: int) -> CycleRecord | None:
        """Publish the ladder's answer to ``record.outcome``; None where the watchdog was first."""
        with self._lock:
            if not self._may_answer(record.cycle, scheduled_ns):
                self._metrics.note_untold(record)
                return None
            return self._publish(record, *self._ladder.answer(self._frame_time_ns()), scheduled_ns)

    def remembered(self, stamp_ns: int) -> None:
        """A refused cycle's frame was kept behind its answer; ``stamp_ns`` is the frame's."""
        self._metrics.count_remembered(stamp_ns)

    def failed_behind(self, error: str) -> None:
        """The engine failed behind an answer: no record tells."""
        self._metrics.note_error(error)

    def expire(self, cycle: int, scheduled_ns: int) -> CycleRecord | None:
        """The watchdog thread's answer to a cycle it has claimed.

        None where the run has ended, or where a later cycle was answered between the claim and this call.
        """
        with self._lock:
            if not self._open:
                return None
            if self._newest is not None and cycle < self._newest:
                self._metrics.count_overtaken()
                return None
            return self._publish_late(cycle, scheduled_ns)

    def finish(self) -> None:
        """End the run: publish zero motion, the last message, whatever thread still computes."""
        with self._lock:
            if not self._open:
                return
            self._open = False
            action = self._ladder.zero_motion(self._frame_time_ns())
            if action is not None:
                self._sink.publish(
                    CycleRecord(cycle=-1, outcome=Outcome.STOPPED, source=ActionSource.ZERO, action=action)
                )

    def _may_answer(self, cycle: int, scheduled_ns: int) -> bool:
        if not self._open:
            return False
        # Where both threads slept through the cycle before, it is answered first: a period without a message
        # must not come from who woke up earlier. Older ones are gone, see the watchdog.
        if self._claims.claim(cycle - 1):
            self._publish_late(cycle - 1, scheduled_ns - self._period_ns)
        return self._claims.claim(cycle)

    def _publish_late(self, cycle: int, scheduled_ns: int) -> CycleRecord:
        return self._publish(
            CycleRecord(cycle, Outcome.LATE), *self._ladder.answer(self._frame_time_ns()), scheduled_ns
        )

    def _publish(
        self, record: CycleRecord, source: ActionSource, action: Action | None, scheduled_ns: int
    ) -> CycleRecord:
        # Before the publish: where it fails half-way the action may be out.
        self._newest = record.cycle
        record = replace(
            record,
            source=source,
            action=action,
            repeat_streak=self._ladder.repeat_streak,
            latency_ms=self._since_ms(scheduled_ns),
        )
        self._sink.publish(record)
        self._metrics.add(record, self._since_ms(scheduled_ns), self._age_ms(action))
        return record

    def _age_ms(self, action: Action | None) -> float:
        """How old the frame behind ``action`` is; 0 without one, and where the clock was set back."""
        return max(0, self._frame_time_ns() - action.stamp_ns) / NS_PER_MS if action is not None else 0.0

    def _since_ms(self, scheduled_ns: int) -> float:
        return (self._steady_ns() - scheduled_ns) / NS_PER_MS
