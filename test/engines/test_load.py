# SPDX-License-Identifier: Apache-2.0
"""Which engine ``auto`` takes, on machines that are pretended."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from vla_edge_ros.config import CacheConfig, EngineConfig, ModelSource, VlaConfig
from vla_edge_ros.engines import load
from vla_edge_ros.errors import ConfigError, EngineError

TINY = VlaConfig(model=ModelSource(preset="tiny"), cache=CacheConfig(capacity_slots=512))


@pytest.fixture
def machine(monkeypatch):
    """``machine(device, accepts)``: with or without a device, whose kernels take the sizes or do not."""

    def pretend(device: bool, accepts: bool = True) -> None:
        def plan(decoder, config, found):
            if not accepts:
                raise EngineError("the CUDA kernels need head_dim to be 64 or 128, got 16")

        modules = {
            "load.device": SimpleNamespace(current_device=lambda: "a device"),
            "plan.sizes": SimpleNamespace(plan=plan),
            "engine": SimpleNamespace(CudaEngine=lambda config: SimpleNamespace(name="cuda")),
        }
        for name, module in modules.items():
            monkeypatch.setitem(sys.modules, f"vla_edge_ros.engines.cuda.{name}", module)
        monkeypatch.setattr(load, "_cuda_device_answers", lambda: device)
        monkeypatch.setattr(load, "_cupy_imports", lambda: True)

    return pretend


def test_auto_takes_cuda_where_a_device_answers_and_the_sizes_fit(machine):
    machine(device=True)
    assert load.load_engine(TINY).name == "cuda"


def test_auto_takes_numpy_without_a_device(machine):
    machine(device=False)
    assert load.load_engine(TINY).name == "numpy"


def test_auto_takes_numpy_and_says_why_where_the_kernels_refuse_the_sizes(machine, caplog):
    machine(device=True, accepts=False)
    assert load.load_engine(TINY).name == "numpy"
    assert "head_dim to be 64 or 128, got 16" in caplog.text


def test_a_named_engine_is_taken_as_it_is(machine):
    machine(device=True, accepts=False)
    assert load.load_engine(replace(TINY, engine=EngineConfig(name="cuda"))).name == "cuda"
    assert load.load_engine(replace(TINY, engine=EngineConfig(name="numpy"))).name == "numpy"


def test_more_slots_than_the_model_has_positions_are_refused(machine):
    machine(device=False)
    with pytest.raises(ConfigError, match="max_position_embeddings, got 65536 > 32768"):
        load.load_engine(replace(TINY, cache=CacheConfig(capacity_slots=65536)))
