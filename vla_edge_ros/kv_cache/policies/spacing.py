# SPDX-License-Identifier: Apache-2.0
"""Which frames a spacing rule may evict, and the time that a frame's neighbours would have to bridge."""

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
