# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from vla_edge_ros.kv_cache.frame_memory import FrameMemory
from vla_edge_ros.kv_cache.policies.semantic import Semantic


def memory_with_turns(*degrees: float) -> FrameMemory:
    """Frames on a circle, each ``degrees`` further than the one before: small turns are similar pairs."""
    memory = FrameMemory(16, 2)
    for i, angle in enumerate(np.deg2rad(np.cumsum([0.0, *degrees]))):
        memory.append(i, i, 0, np.array([np.cos(angle), np.sin(angle)]))
    return memory


@pytest.mark.parametrize(
    ("turns", "evicted"),
    [
        ((30, 10, 20, 40), 1),  # frames 1 and 2 are most alike: the older goes
        ((5, 10, 20, 40), 0),
        ((30, 10, 10, 40), 1),  # a tie goes to the oldest pair
        ((30, 20, 10, 1), 2),  # the newest frame is not judged, as the seed decides before it comes
        ((30,), 0),
    ],
)
def test_older_half_of_the_most_similar_old_pair_is_evicted(turns, evicted):
    assert Semantic().choose(memory_with_turns(*turns)) == evicted
