# SPDX-License-Identifier: Apache-2.0
"""Which frames are in the cache when each frame of an episode arrives, by the policies that will run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.config import CacheConfig
from vla_edge_ros.kv_cache.descriptor import describe, descriptor_size
from vla_edge_ros.kv_cache.eviction import EvictionPolicy, make_policy
from vla_edge_ros.kv_cache.frame_memory import FrameMemory

ORACLE = "oracle"
PROTECT_LATEST = 8


class Oracle:
    """Never forgets a frame that shows a cue, else the oldest: what a policy by meaning can reach at best.

    ``shows_cue``: ``[t]`` of each frame of the episode, whose sequence numbers are 1, 2, ...
    """

    descriptor = "none"

    def __init__(self, shows_cue: NDArray[np.bool_]):
        self._shows_cue = shows_cue

    def excess(self, memory: FrameMemory, room: int) -> int:
        return max(0, len(memory) - room)

    def choose(self, memory: FrameMemory) -> int:
        plain = np.flatnonzero(~self._shows_cue[memory.sequences - 1])
        return int(plain[0]) if len(plain) else 0


def kept_sets(
    policy_name: str, pixels: NDArray[np.uint8], cycles: NDArray[np.int64], cue: NDArray[np.int64], room: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """``(index [t, room], count [t])``: the frames kept before each frame of ``pixels`` ``[t, h, w, 3]``.

    ``cycles``: ``[t]`` when each was seen; ``cue``: ``[t]`` the number of the cue that each shows, or -1.
    """
    frames = len(pixels)
    policy: EvictionPolicy
    if policy_name == ORACLE:
        policy = Oracle(cue >= 0)
    else:
        protect = min(PROTECT_LATEST, max(1, room // 2))
        policy = make_policy(CacheConfig(eviction=policy_name, protect_latest=protect))
    # The model's embedding is not known here; a thumbnail stands in where a policy compares embeddings.
    kind = "thumbnail" if policy.descriptor == "embedding" else policy.descriptor
    memory = FrameMemory(room + 1, descriptor_size(kind, 0), kind == "cells")
    index, count = np.zeros((frames, room), np.int64), np.zeros(frames, np.int64)
    for frame in range(frames):
        kept = memory.sequences - 1
        index[frame, : len(kept)], count[frame] = kept, len(kept)
        described = describe(kind, pixels[frame], np.zeros(0, np.float32))
        memory.append(frame + 1, int(cycles[frame]) * 33_333_333, 0, described)
        if policy.excess(memory, room):
            memory.remove(policy.choose(memory))
    return index, count
