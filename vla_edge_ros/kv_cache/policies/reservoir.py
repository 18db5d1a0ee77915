# SPDX-License-Identifier: Apache-2.0
"""A uniform random sample of everything seen, beside the latest frames: the control that knows nothing.

Vitter's algorithm R (ACM TOMS 1985), driven by splitmix64 of the number of frames seen, so that a run can be
repeated bit by bit.
"""

from __future__ import annotations

from vla_edge_ros.kv_cache.frame_memory import FrameMemory

_MASK = 2**64 - 1


def splitmix64(value: int) -> int:
    """Steele, Lea and Flood's finaliser: 64 well-mixed bits of ``value``."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


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
        drawn = splitmix64(memory.seen) * drawn_for >> 64  # uniform in 0..drawn_for - 1
        return min(drawn, newcomer)
