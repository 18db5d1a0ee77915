# SPDX-License-Identifier: Apache-2.0
"""Kept sets of training are those of the cache that the node runs with."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="training needs PyTorch")

from vla_edge_ros.config import CacheConfig, VlaConfig  # noqa: E402
from vla_edge_ros.kv_cache.cache import KvCache  # noqa: E402
from vla_edge_ros.kv_cache.descriptor import describe  # noqa: E402
from vla_edge_ros.kv_cache.eviction import make_policy  # noqa: E402
from vla_edge_ros.training.kept_sets import ORACLE, kept_sets  # noqa: E402
from vla_edge_ros.training.rollout import make_rollout  # noqa: E402


@pytest.fixture(scope="module")
def rollout():
    return make_rollout("recall_last", np.random.default_rng(4), 60, 100)


@pytest.mark.parametrize("name", ["fifo", "bridge", "novelty", "reservoir", "time_thinning"])
def test_they_are_what_the_cache_keeps(name, rollout):
    config = VlaConfig(cache=CacheConfig(capacity_slots=640, eviction=name))
    policy = make_policy(config.cache)
    cache = KvCache.for_model(config, policy, 64)
    assert 8 < cache.room < 30, "frames are evicted, and as many protected as the node protects"
    index, count = kept_sets(name, rollout.pixels, rollout.cycles, rollout.lit, cache.room)
    for frame, pixels in enumerate(rollout.pixels):
        assert index[frame, : count[frame]].tolist() == (cache.memory.sequences - 1).tolist()
        with cache.begin(frame + 1, int(rollout.cycles[frame]) * 33_333_333) as chunk:
            chunk.commit(describe(policy.descriptor, pixels, np.zeros(64, np.float32)))


def test_the_oracle_keeps_cue_frames_before_all_others(rollout):
    index, count = kept_sets(ORACLE, rollout.pixels, rollout.cycles, rollout.lit, 24)
    shows = rollout.lit >= 0
    kept = index[-1, : count[-1]]
    assert shows[kept].sum() == min(24, shows[:-1].sum())
    plain = kept[~shows[kept]]
    oldest_first = np.flatnonzero(~shows[:-1])
    assert len(plain) > 0 and plain.tolist() == oldest_first[len(oldest_first) - len(plain) :].tolist()
