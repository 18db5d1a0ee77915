# SPDX-License-Identifier: Apache-2.0
"""How many cores other programs took meanwhile: numbers of a busy machine are read in another way."""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path

STAT = Path("/proc/stat")
_IDLE = (3, 4)  # of the line's fields: idle, iowait
_FIELDS = 8  # user, nice, system, idle, iowait, irq, softirq, steal; guests are in user already


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Seconds of all cores: ``busy`` with anything, what a hypervisor took included; ``own`` of ours."""

    at_s: float
    busy_s: float
    own_s: float


def cpu_times(stat: Path = STAT) -> CpuTimes:
    """Now. ``own`` counts this process, and its children that have been waited for."""
    fields = [int(text) for text in stat.read_text().split("\n", 1)[0].split()[1 : 1 + _FIELDS]]
    busy = sum(fields) - sum(fields[place] for place in _IDLE)
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own_s = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    return CpuTimes(time.monotonic(), busy / os.sysconf("SC_CLK_TCK"), own_s)


def other_cores(before: CpuTimes, after: CpuTimes) -> float:
    """Cores in the mean that others were busy with; between the two all children have ended."""
    passed_s = max(1e-3, after.at_s - before.at_s)
    others_s = (after.busy_s - before.busy_s) - (after.own_s - before.own_s)
    return max(0.0, others_s / passed_s)
