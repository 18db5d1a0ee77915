# SPDX-License-Identifier: Apache-2.0
"""First in, first out: evict the oldest frame when a page is needed."""

from __future__ import annotations

from vla_edge_ros.kv_cache.frame_memory import FrameMemory


class Fifo:
    descriptor = "none"

    def excess(self, memory: FrameMemory, room: int) -> int:
        return max(0, len(memory) - room)

    def choose(self, memory: FrameMemory) -> int:
        return 0
