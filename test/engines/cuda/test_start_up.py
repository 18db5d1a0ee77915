# SPDX-License-Identifier: Apache-2.0
"""A start-up that fails half-way keeps nothing, one that succeeds leaves nothing that asks the driver.

Checked without a device, on stand-ins for what it takes.
"""

from __future__ import annotations

import pytest

pytest.importorskip("cupy")

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.engines.cuda import engine as module
from vla_edge_ros.engines.cuda.plan.device_sizes import Device
from vla_edge_ros.errors import EngineError, WeightsError


class Taken:
    """Something that must be given back, and a record of the order in which it was."""

    def __init__(self, name, given_back):
        self.name, self.given_back = name, given_back

    def close(self):
        self.given_back.append(self.name)

    synchronize = close


@pytest.fixture
def given_back(monkeypatch):
    names = []
    monkeypatch.setattr(module, "current_device", lambda: Device("H200", 90, 132, 232448, 233472))
    monkeypatch.setattr(module, "load_kernels", lambda *_, **__: {})
    monkeypatch.setattr(module, "DeviceMemory", lambda *_: Taken("buffers", names))
    monkeypatch.setattr(module, "PeakSampler", lambda: Taken("sampler", names))
    monkeypatch.setattr(module.cupy.cuda, "Stream", lambda **_: Taken("stream", names))
    return names


@pytest.mark.parametrize("stage", ["_load_weights", "_capture"])
def test_what_was_taken_is_given_back_in_reverse(given_back, monkeypatch, stage):
    def fail(self):
        raise WeightsError("a tensor is missing")

    for name in ("_load_weights", "_capture"):
        monkeypatch.setattr(module.CudaEngine, name, fail if name == stage else lambda self: None)
    engine = module.CudaEngine(VlaConfig())
    with pytest.raises(WeightsError, match="missing"):
        engine.load()
    assert given_back == ["sampler", "stream", "buffers"]
    with pytest.raises(EngineError, match="expected load"):
        engine.memory()
    engine.close()
    assert len(given_back) == 3


def test_a_loaded_engine_no_longer_samples_its_memory(given_back, monkeypatch):
    during = []
    for name in ("_load_weights", "_capture"):
        monkeypatch.setattr(module.CudaEngine, name, lambda self: during.append(list(given_back)))
    engine = module.CudaEngine(VlaConfig())
    engine.load()
    assert during == [[], []] and given_back == ["sampler"]
    engine._action = engine._prefill = engine.steps = engine.passes = None  # what the capture would have made
    engine.close()
    engine.close()
    assert given_back == ["sampler", "stream", "buffers"]
