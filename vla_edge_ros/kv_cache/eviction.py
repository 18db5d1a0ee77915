# SPDX-License-Identifier: Apache-2.0
"""The protocol of eviction policies, and their registry by name."""

from __future__ import annotations

from typing import Protocol

from vla_edge_ros.kv_cache.frame_memory import FrameMemory


class EvictionPolicy(Protocol):
    """Chooses which kept frame to forget, after the newest one has been added.

    A policy is a pure function of the memory: same memory, same answer, on every machine.
    ``descriptor`` says what frames are compared by: ``"none"``, ``"thumbnail"`` (zero-mean 16x8 grey,
    unit length) or ``"embedding"`` (the engine's mean vision token, unit length).
    """

    descriptor: str

    def excess(self, memory: FrameMemory, room: int) -> int:
        """How many frames must go so that at most ``room`` (or the policy's own window) stay."""
        ...

    def choose(self, memory: FrameMemory) -> int:
        """Index, in time order, of the frame to evict. Ties go to the oldest."""
        ...
