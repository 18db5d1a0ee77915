# SPDX-License-Identifier: Apache-2.0
"""What was not OK, and when: each status that rises to WARN or ERROR begins a fault."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass

from vla_edge_ros.monitor.reading import OK, Reading

KEPT = 50
# What comes back so soon is the same fault: a text that flickers must not push all others out.
SAME_WITHIN_S = 60.0


@dataclass(slots=True)
class Fault:
    """Times are seconds since 1970, by this machine's clock. ``ended_s`` is None while it lasts."""

    name: str
    level: int
    message: str
    began_s: float
    last_s: float
    ended_s: float | None = None
    times: int = 1

    @property
    def subject(self) -> str:
        return self.name.rpartition(": ")[2]


class FaultList:
    """The last ``KEPT`` faults. While one lasts its text may change, but for what stands before a colon."""

    def __init__(self) -> None:
        self._faults: deque[Fault] = deque(maxlen=KEPT)

    def see(self, reading: Reading, wall_s: float) -> Fault | None:
        """Take the state of one status; the fault that begins with it, if one does."""
        same = None
        for fault in self._faults:
            if fault.name != reading.name:
                continue
            if fault.level == reading.level and _kind(fault.message) == _kind(reading.message):
                same = fault
            elif fault.ended_s is None:
                fault.ended_s = wall_s
        if reading.level == OK:
            return None
        if same is None or (same.ended_s is not None and wall_s - same.ended_s > SAME_WITHIN_S):
            self._faults.append(Fault(reading.name, reading.level, reading.message, wall_s, wall_s))
            return self._faults[-1]
        if same.ended_s is not None:
            same.ended_s, same.times = None, same.times + 1
        same.message, same.last_s = reading.message, wall_s
        return None

    def newest(self, count: int) -> list[Fault]:
        """Those that last first, then by when they were seen last."""
        ordered = sorted(self._faults, key=lambda fault: (fault.ended_s is None, fault.last_s), reverse=True)
        return ordered[:count]


def _kind(message: str) -> str:
    """Without numbers, and without the details: ``20.3 % of the last 311 cycles fell back: refused 63``."""
    return re.sub(r"\d+(\.\d+)?", "0", message.partition(": ")[0])
