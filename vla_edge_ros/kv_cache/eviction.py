# SPDX-License-Identifier: Apache-2.0
"""The protocol of eviction policies, and their registry by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from vla_edge_ros.config import CacheConfig
from vla_edge_ros.errors import ConfigError
from vla_edge_ros.kv_cache.frame_memory import FrameMemory
from vla_edge_ros.kv_cache.policies.bridge import Bridge
from vla_edge_ros.kv_cache.policies.bridge_distance import BridgeDistance
from vla_edge_ros.kv_cache.policies.fifo import Fifo
from vla_edge_ros.kv_cache.policies.novelty import Novelty
from vla_edge_ros.kv_cache.policies.reservoir import Reservoir
from vla_edge_ros.kv_cache.policies.semantic import Semantic
from vla_edge_ros.kv_cache.policies.sliding_window import SlidingWindow
from vla_edge_ros.kv_cache.policies.time_thinning import TimeThinning


class EvictionPolicy(Protocol):
    """Chooses which kept frame to forget, after the newest one has been added.

    A policy is a pure function of the memory: same memory, same answer, on every machine.
    ``descriptor`` says what frames are compared by: ``"none"``, ``"thumbnail"`` (zero-mean 16x8 grey,
    unit length), ``"cells"`` (16x8 colours, compared cell by cell) or ``"embedding"`` (the engine's mean
    vision token, unit length).
    """

    descriptor: str

    def excess(self, memory: FrameMemory, room: int) -> int:
        """How many frames must go so that at most ``room`` (or the policy's own window) stay."""
        ...

    def choose(self, memory: FrameMemory) -> int:
        """Index, in time order, of the frame to evict. Ties go to the oldest."""
        ...


_POLICIES: dict[str, Callable[[CacheConfig], EvictionPolicy]] = {
    "fifo": lambda config: Fifo(),
    "sliding_window": lambda config: SlidingWindow(config.window_frames),
    "semantic": lambda config: Semantic(),
    "bridge": lambda config: Bridge(config.protect_latest),
    "bridge_distance": lambda config: BridgeDistance(config.protect_latest),
    "novelty": lambda config: Novelty(config.protect_latest),
    "reservoir": lambda config: Reservoir(config.protect_latest),
    "time_thinning": lambda config: TimeThinning(config.protect_latest),
}

POLICY_NAMES = tuple(_POLICIES)


def make_policy(config: CacheConfig) -> EvictionPolicy:
    """The policy that ``config.eviction`` names, with its settings from ``config``."""
    if config.eviction not in _POLICIES:
        raise ConfigError(f"cache.eviction must be one of {', '.join(POLICY_NAMES)}, got {config.eviction!r}")
    return _POLICIES[config.eviction](config)
