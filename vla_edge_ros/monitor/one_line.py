# SPDX-License-Identifier: Apache-2.0
"""The same in one line a second, for logs and for terminals that cannot be drawn on."""

from __future__ import annotations

from collections import Counter

from vla_edge_ros.monitor import rows
from vla_edge_ros.monitor.fault_list import Fault
from vla_edge_ros.monitor.graph_state import GraphState
from vla_edge_ros.monitor.line import Line
from vla_edge_ros.monitor.reading import LEVELS, OK
from vla_edge_ros.monitor.screen import clock, fault_line, waiting


class OneLine:
    """Remembers between two lines what was told."""

    def __init__(self) -> None:
        self._outcomes: Counter[str] = Counter()
        self._waits = ""
        self._told: dict[int, Fault] = {}

    def lines(self, state: GraphState, now_s: float, wall_s: float) -> list[str]:
        """A line for this second, and one for each fault that began since the last call."""
        told = [_text(fault_line(fault, wall_s)).strip() for fault in self._new_faults(state)]
        return [f"{clock(wall_s, wall_s)} | {self._now(state, now_s)}", *told]

    def _new_faults(self, state: GraphState) -> list[Fault]:
        faults = {id(fault): fault for fault in state.faults.newest(50)}
        new = [fault for number, fault in faults.items() if number not in self._told]
        self._told = faults  # holds them, so that no new one gets the number of one that is gone
        return new[::-1]

    def _now(self, state: GraphState, now_s: float) -> str:
        parts = [_text(line).strip() for line in waiting(state)]
        if state.cycle is not None:
            minute = state.minute.total(now_s)
            outcomes = state.since_start.outcomes
            more = {name: outcomes[name] - self._outcomes[name] for name in outcomes}
            self._outcomes = Counter(outcomes)
            counts = ", ".join(f"{name} {count}" for name, count in more.items() if count)
            parts += [
                _text(rows.headline(state, now_s)),
                f"cycles {sum(more.values())}: {counts}" if counts else "cycles 0",
                f"latency {_text(rows.latency(state, minute))}",
            ]
        for label, subject, row in (
            ("camera", "Camera", rows.camera),
            ("cache", "KV cache", rows.cache),
            ("robot", "Robot", rows.robot),
        ):
            if (seen := state.subject(subject)) is not None:
                parts.append(f"{label} {_text(row(state, seen.reading))}")
        bad = [seen.reading for seen in state.subjects() if seen.reading.level > OK]
        parts += [f"{reading.subject} {LEVELS[reading.level]}" for reading in bad]
        return " | ".join(parts)


def _text(line: Line) -> str:
    return "".join(text for text, _ in line)
