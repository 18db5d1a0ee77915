# SPDX-License-Identifier: Apache-2.0
"""Evict the frame whose neighbours are closest in time: an even spread, blind to what frames show.

A control for the comparisons: a rule that looks at pictures has to beat it.
"""

from __future__ import annotations

import numpy as np

from vla_edge_ros.kv_cache.frame_memory import FrameMemory
from vla_edge_ros.kv_cache.policies.spacing import candidates, gaps_ns


class TimeThinning:
    """The latest ``protect_latest`` frames are never evicted."""

    descriptor = "none"

    def __init__(self, protect_latest: int) -> None:
        self.protect_latest = protect_latest

    def excess(self, memory: FrameMemory, room: int) -> int:
        return max(0, len(memory) - room)

    def choose(self, memory: FrameMemory) -> int:
        if len(memory) < 3:
            return 0
        chosen = candidates(len(memory), self.protect_latest)
        return chosen.start + int(np.argmin(gaps_ns(memory, chosen)))
