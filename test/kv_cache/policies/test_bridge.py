# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vla_edge_ros.kv_cache.frame_memory import FrameMemory
from vla_edge_ros.kv_cache.policies.bridge import Bridge
from vla_edge_ros.kv_cache.policies.bridge_distance import BridgeDistance


@given(
    seed=st.integers(0, 2**31),
    frames=st.integers(3, 40),
    protect=st.integers(1, 12),
    power=st.sampled_from([1.0, 0.5]),
)
def test_evicted_frame_has_the_least_cost_by_the_formula(seed, frames, protect, power):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(frames, 6))
    stamps = np.cumsum(rng.integers(1, 10**9, frames))
    memory = FrameMemory(40, 6)
    for i in range(frames):
        memory.append(i, int(stamps[i]), 0, rows[i])
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    last = max(1, frames - 1 - protect)
    costs = [
        (0.01 + (1 - unit[i - 1] @ unit[i + 1]) ** power) * (stamps[i + 1] - stamps[i - 1])
        for i in range(1, last + 1)
    ]
    policy = Bridge(protect) if power == 1.0 else BridgeDistance(protect)
    chosen = policy.choose(memory)
    assert 1 <= chosen <= last
    assert costs[chosen - 1] == pytest.approx(min(costs), rel=1e-3)


@pytest.mark.parametrize("policy", [Bridge(2), BridgeDistance(2)])
def test_tie_goes_to_the_oldest_candidate(policy):
    memory = FrameMemory(10, 3)
    for i in range(10):
        memory.append(i, i * 1000, 0, np.ones(3))
    assert policy.choose(memory) == 1
