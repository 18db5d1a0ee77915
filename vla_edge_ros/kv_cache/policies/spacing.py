# SPDX-License-Identifier: Apache-2.0
"""Rules that weigh the gap which a frame would leave: evict the one whose gap costs least."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.kv_cache.frame_memory import FrameMemory


def candidates(count: int, protect_latest: int) -> slice:
    """Frames with a neighbour on both sides, without the latest ones; never empty from three frames on.

    The oldest frame has no neighbour before it, so it stays: the memory always reaches back to the start.
    """
    return slice(1, max(2, count - protect_latest))


def gaps_ns(memory: FrameMemory, chosen: slice) -> NDArray[np.int64]:
    """Time from the frame before to the frame after each candidate."""
    times = memory.times_ns
    return times[chosen.start + 1 : chosen.stop + 1] - times[chosen.start - 1 : chosen.stop - 1]


class SpacingRule:
    """Evicts the candidate of the lowest cost; never one of the latest ``protect_latest`` frames."""

    def __init__(self, protect_latest: int) -> None:
        self.protect_latest = protect_latest

    def excess(self, memory: FrameMemory, room: int) -> int:
        return max(0, len(memory) - room)

    def choose(self, memory: FrameMemory) -> int:
        if len(memory) < 3:
            return 0
        chosen = candidates(len(memory), self.protect_latest)
        return chosen.start + int(np.argmin(self.costs(memory, chosen)))

    def costs(self, memory: FrameMemory, chosen: slice) -> NDArray[np.float64] | NDArray[np.int64]:
        """What losing each frame of ``chosen`` would cost."""
        raise NotImplementedError
