# SPDX-License-Identifier: Apache-2.0
"""Where a cycle's answer goes: the seam between the control loop and ROS (or a test's list)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from vla_edge_ros.types import CycleRecord


class ActionSink(Protocol):
    """Publishes records. Called by the reasoning thread or the watchdog thread, never by both at once."""

    def publish(self, record: CycleRecord) -> None:
        """Send ``record.action`` (nothing where it is None) and the cycle's status."""
        ...


class ObservedSink:
    """Publishes, then shows each record to observers, which must not wait: a recorder's queue, a counter."""

    def __init__(self, sink: ActionSink, observers: Sequence[Callable[[CycleRecord], None]]):
        self._sink = sink
        self._observers = tuple(observers)

    def publish(self, record: CycleRecord) -> None:
        self._sink.publish(record)
        for observe in self._observers:
            observe(record)
