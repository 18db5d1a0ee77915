# SPDX-License-Identifier: Apache-2.0
"""A small CUDA engine for tests of the benchmarks that drive one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture
def small_engine() -> Iterator[Callable[[int], Any]]:
    """``small_engine(capacity_slots)``: loaded, with drafts, closed after the test."""
    from vla_edge_ros.config import CacheConfig, EngineConfig, VlaConfig
    from vla_edge_ros.engines.cuda.engine import CudaEngine
    from vla_edge_ros.model.decoder_config import SMALL
    from vla_edge_ros.model.random_weights import RandomWeights

    loaded = []

    def load(capacity_slots: int) -> CudaEngine:
        config = VlaConfig(
            cache=CacheConfig(capacity_slots=capacity_slots), engine=EngineConfig(draft="last_action")
        )
        loaded.append(CudaEngine(config, RandomWeights(SMALL, 0)))
        loaded[-1].load()
        return loaded[-1]

    yield load
    for engine in loaded:
        engine.close()
