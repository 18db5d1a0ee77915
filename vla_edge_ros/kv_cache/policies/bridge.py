# SPDX-License-Identifier: Apache-2.0
"""Evict the frame whose neighbours can best do without it.

Cost of losing a frame = how different the frames before and after it are, times the time they would then
have to bridge. A glitch costs little, because the pictures around it agree; a slow drift is thinned evenly,
because every eviction widens a gap and so makes its edges cost more.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.kv_cache.frame_memory import FrameMemory
from vla_edge_ros.kv_cache.policies.spacing import SpacingRule, gaps_ns

# What a frame costs where nothing changes at all. It spreads frames evenly in time over a still scene; far
# above the noise of a still camera (1 - cosine below 0.001), far below a change of scene (about 1).
_STILL_COST = 0.01


class Bridge(SpacingRule):
    """Compares thumbnails."""

    descriptor = "thumbnail"

    def costs(self, memory: FrameMemory, chosen: slice) -> NDArray[np.float64]:
        return (_STILL_COST + self.difference(memory.skip[chosen])) * gaps_ns(memory, chosen)

    def difference(self, similarity: NDArray[np.float64]) -> NDArray[np.float64]:
        return 1.0 - similarity
