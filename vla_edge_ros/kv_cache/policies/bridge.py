# SPDX-License-Identifier: Apache-2.0
"""Evict the frame whose neighbours can best do without it.

Cost of losing a frame = how different the frames before and after it are, times the time they would then
have to bridge. A glitch costs little, because the pictures around it agree; a slow drift is thinned evenly,
because every eviction widens a gap and so makes its edges dearer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.kv_cache.frame_memory import FrameMemory
from vla_edge_ros.kv_cache.policies.spacing import candidates, gaps_ns

# What a frame costs where nothing changes at all. It spreads frames evenly in time over a still scene; far
# above the noise of a still camera (1 - cosine below 0.001), far below a change of scene (about 1).
_STILL_COST = 0.01


class Bridge:
    """Compares thumbnails; the latest ``protect_latest`` frames are never evicted."""

    descriptor = "thumbnail"

    def __init__(self, protect_latest: int) -> None:
        self.protect_latest = protect_latest

    def excess(self, memory: FrameMemory, room: int) -> int:
        return max(0, len(memory) - room)

    def choose(self, memory: FrameMemory) -> int:
        if len(memory) < 3:
            return 0
        chosen = candidates(len(memory), self.protect_latest)
        cost = (_STILL_COST + self.difference(memory.skip[chosen])) * gaps_ns(memory, chosen)
        return chosen.start + int(np.argmin(cost))

    def difference(self, similarity: NDArray[np.float64]) -> NDArray[np.float64]:
        return 1.0 - similarity
