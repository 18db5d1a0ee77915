# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from vla_edge_ros.kv_cache.frame_memory import FrameMemory
from vla_edge_ros.kv_cache.policies.spacing import candidates, gaps_ns


@pytest.mark.parametrize(
    ("count", "protect", "expected"),
    [
        (10, 8, [1]),  # 0 has no neighbour before it, 2 to 9 are the latest eight
        (12, 8, [1, 2, 3]),
        (12, 1, list(range(1, 11))),
        (9, 8, [1]),  # one must go, though only the oldest and eight latest are there
        (3, 50, [1]),
    ],
)
def test_candidates_have_two_neighbours_and_are_not_among_the_latest(count, protect, expected):
    assert list(range(count))[candidates(count, protect)] == expected


def test_gap_is_the_time_from_the_frame_before_to_the_frame_after():
    memory = FrameMemory(8, 0)
    for number, stamp_ns in enumerate([0, 10, 30, 70, 150]):
        memory.append(number, stamp_ns, 0, None)
    assert gaps_ns(memory, slice(1, 4)).tolist() == [30, 60, 120]
