# SPDX-License-Identifier: Apache-2.0
"""A uniform random sample of everything seen, beside the latest frames: the control that knows nothing.

Vitter's algorithm R (ACM TOMS 1985), driven by splitmix64 of the number of frames seen, so that a run can be
repeated bit by bit.
"""

from __future__ import annotations

from vla_edge_ros.kv_cache.frame_memory import FrameMemory
from vla_edge_ros.splitmix64 import splitmix64_of


class Reservoir:
    """The latest ``protect_latest`` frames wait outside the sample; the one that leaves them is drawn for."""

    descriptor = "none"

    def __init__(self, protect_latest: int) -> None:
        self.protect_latest = protect_latest

    def excess(self, memory: FrameMemory, room: int) -> int:
        return max(0, len(memory) - room)

    def choose(self, memory: FrameMemory) -> int:
        waiting = min(self.protect_latest, len(memory) - 1)
        newcomer = len(memory) - 1 - waiting  # the frames before it are the sample
        drawn_for = memory.seen - waiting
        drawn = splitmix64_of(memory.seen) * drawn_for >> 64  # uniform in 0..drawn_for - 1
        return min(drawn, newcomer)
