# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from vla_edge_ros.kv_cache.frame_memory import FrameMemory
from vla_edge_ros.kv_cache.policies.time_thinning import TimeThinning


@pytest.mark.parametrize(
    ("stamps_ns", "evicted"),
    [
        ((0, 100, 200, 300, 400), 1),  # a tie goes to the oldest
        ((0, 100, 110, 300, 400), 1),  # 110 wide, as against 200 and 290
        ((0, 100, 250, 300, 310), 2),  # 200 wide, as against 250; the third is among the latest two
        ((0, 5), 0),
    ],
)
def test_frame_with_the_closest_neighbours_in_time_is_evicted(stamps_ns, evicted):
    memory = FrameMemory(8, 0)
    for number, stamp_ns in enumerate(stamps_ns):
        memory.append(number, stamp_ns, 0, None)
    assert TimeThinning(protect_latest=2).choose(memory) == evicted
