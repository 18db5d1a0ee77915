# SPDX-License-Identifier: Apache-2.0
"""What is known of the graph: taken from messages one by one, read by who draws."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from vla_edge_ros.monitor.fault_list import FaultList
from vla_edge_ros.monitor.last_minute import Cycles, LastMinute
from vla_edge_ros.monitor.reading import OK, WARN, Reading, readings
from vla_edge_ros.types import Outcome

SILENT_S = 2.0  # without a status, at rates of ten a second and more
STALE_S = 3.0  # without diagnostics, which come once a second
MOST_NAMES = 200  # of statuses; nodes may come and go for months


@dataclass(frozen=True, slots=True)
class Seen:
    """A reading, and when it came, in seconds of a steady clock."""

    reading: Reading
    at_s: float


@dataclass(frozen=True, slots=True)
class Publishers:
    """Who is there by the graph. ``elsewhere``: topics in other namespaces that look like a reasoner's."""

    status_topic: str = "status"
    status: int = 0
    diagnostics: int = 0
    elsewhere: tuple[str, ...] = ()
    domain: str = "0"


class GraphState:
    """Of one namespace, as ``/vla``; used by one thread.

    ``now_s`` is a steady clock's time and ``wall_s`` the time of day: a message's own stamp says nothing of
    when it came, and may be another machine's. Bounded in memory, whatever is sent for however long.
    """

    def __init__(self, namespace: str):
        self.namespace = "/" + namespace.strip("/")
        self.publishers = Publishers()
        self.minute = LastMinute()
        self.faults = FaultList()
        self.since_start = Cycles()
        self.cycle: Seen | None = None
        self.episode: Seen | None = None
        self.restarts = 0
        self._numbers: dict[str, int] = {}  # the last cycle of each node
        self._statuses: dict[str, Seen] = {}

    @property
    def node(self) -> str:
        """The reasoner's full name; empty before it was heard of."""
        if self.cycle is not None:
            return self.cycle.reading.node
        deadlines = [name for name in self._statuses if name.endswith(": Deadline")]
        return deadlines[-1].rpartition(": ")[0] if deadlines else ""

    def take_status(self, array: Any, now_s: float, wall_s: float) -> None:
        """A message of the topic ``status``, each cycle."""
        for reading in readings(array):
            if reading.subject == "Cycle":
                self._count(reading, now_s, wall_s)
                self.cycle = Seen(reading, now_s)

    def take_diagnostics(self, array: Any, now_s: float, wall_s: float) -> None:
        """A message of ``/diagnostics``; what is not of this namespace is left out."""
        for reading in readings(array):
            if self._is_ours(reading.node):
                self._statuses.pop(reading.name, None)  # to the end: the newest one
                self._statuses[reading.name] = Seen(reading, now_s)
                self.faults.see(reading, wall_s)
        while len(self._statuses) > MOST_NAMES:
            del self._statuses[next(iter(self._statuses))]

    def take_episode(self, array: Any, now_s: float) -> None:
        """A message of the simulated robot's topic ``episode``."""
        for reading in readings(array):
            self.episode = Seen(reading, now_s)

    def subject(self, name: str) -> Seen | None:
        """The newest status with this subject, the reasoner's where it has one."""
        own = self._statuses.get(f"{self.node}: {name}")
        others = [seen for seen in self._statuses.values() if seen.reading.subject == name]
        return own or (others[-1] if others else None)

    def subjects(self) -> list[Seen]:
        """All statuses of the namespace, in the order of their names."""
        return [self._statuses[name] for name in sorted(self._statuses)]

    def deadline_ms(self) -> float:
        """``nan`` before it was told."""
        seen = self.subject("Deadline")
        return seen.reading.number("deadline_ms") if seen else math.nan

    def _is_ours(self, node: str) -> bool:
        """In the namespace or below; in the root's only what is directly in it, or all robots would be."""
        parent = node.rpartition("/")[0]
        if self.namespace == "/":
            return parent == ""
        return f"{parent}/".startswith(f"{self.namespace}/")

    def _count(self, reading: Reading, now_s: float, wall_s: float) -> None:
        if reading.text("outcome") == Outcome.STOPPED.value:  # not a cycle
            return
        unseen = self._unseen(reading, wall_s)
        outcome, source = reading.text("outcome"), reading.text("source")
        reason = reading.text("admission_reason")
        second = self.minute.second(now_s)
        second.count(outcome, source, reason, reading.number("latency_ms"), unseen)
        self.since_start.count(outcome, source, reason, math.nan, unseen)

    def _unseen(self, reading: Reading, wall_s: float) -> int:
        """Cycles without a message since the last one; numbers that go back are those of a new run."""
        if math.isnan(reading.number("cycle")):
            return 0
        number = reading.count("cycle")
        last = self._numbers.pop(reading.node, number - 1)
        self._numbers[reading.node] = number
        while len(self._numbers) > MOST_NAMES:
            del self._numbers[next(iter(self._numbers))]
        if number < last:
            self.restarts += 1
            text = f"a new run: cycle {number} came after cycle {last}"
            for level in (WARN, OK):  # it is over as it begins
                self.faults.see(Reading(f"{reading.node}: Restart", level, text, {}), wall_s)
            return 0
        return max(0, number - last - 1)
