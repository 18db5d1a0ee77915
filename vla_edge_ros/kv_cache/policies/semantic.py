# SPDX-License-Identifier: Apache-2.0
"""The seed design's rule: evict the older half of the most similar pair of adjacent frames.

Kept for comparison. On a smooth stream the newest pair is nearly always the most similar, so the rule eats
the frames just behind the newest and never touches the old ones again: the memory freezes on the beginning.
"""

from __future__ import annotations

import numpy as np

from vla_edge_ros.kv_cache.frame_memory import FrameMemory


class Semantic:
    """Compares pooled embeddings. Like the seed, it judges the old frames before it looks at the newest."""

    descriptor = "embedding"

    def excess(self, memory: FrameMemory, room: int) -> int:
        return max(0, len(memory) - room)

    def choose(self, memory: FrameMemory) -> int:
        old_pairs = memory.link[:-1]
        return int(np.argmax(old_pairs)) if len(old_pairs) else 0
