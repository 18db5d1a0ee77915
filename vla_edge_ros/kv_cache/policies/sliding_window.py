# SPDX-License-Identifier: Apache-2.0
"""Keep the latest ``window_frames`` frames, however much room there is.

With a window of the whole cache this is ``fifo`` (a property test holds them together). They stay two names
because they answer two questions: fifo evicts when a page is needed, sliding_window bounds what the model
sees, which also bounds the cost of a chunk, in a cache that could hold more.
"""

from __future__ import annotations

from vla_edge_ros.kv_cache.frame_memory import FrameMemory
from vla_edge_ros.kv_cache.policies.fifo import Fifo


class SlidingWindow(Fifo):
    """``window_frames`` 0 means as many as fit."""

    def __init__(self, window_frames: int) -> None:
        self.window_frames = window_frames

    def excess(self, memory: FrameMemory, room: int) -> int:
        return super().excess(memory, min(room, self.window_frames) if self.window_frames else room)
