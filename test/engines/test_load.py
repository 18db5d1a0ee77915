# SPDX-License-Identifier: Apache-2.0
"""Which engine ``auto`` takes, on machines that are pretended; each lacks one part, which is named."""

from __future__ import annotations

import ctypes
import re
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from vla_edge_ros.config import CacheConfig, EngineConfig, ModelSource, VlaConfig
from vla_edge_ros.engines import load
from vla_edge_ros.errors import ConfigError, EngineError

TINY = VlaConfig(model=ModelSource(preset="tiny"), cache=CacheConfig(capacity_slots=512))
CUDA = replace(TINY, engine=EngineConfig(name="cuda"))


class Driver:
    """``libcuda.so.1`` as ctypes shows it."""

    def __init__(self, status=0, devices=1):
        self.status, self.devices = status, devices

    def cuInit(self, flags):
        return self.status

    def cuDeviceGetCount(self, count):
        count._obj.value = self.devices
        return 0

    def cuGetErrorString(self, status, text):
        text._obj.value = b"system not yet initialized"


@pytest.fixture
def machine(monkeypatch):
    """``machine(...)``: one where CUDA works, but for what the arguments say."""

    def pretend(driver=None, cupy=True, missing="", accepts=True):
        driver = driver or Driver()

        def open_library(name):
            if driver == "none":
                raise OSError(f"{name}: cannot open shared object file")
            return driver

        def require_working_cuda():
            if missing:
                raise EngineError(missing)

        def plan(decoder, config, found):
            if not accepts:
                raise EngineError("the CUDA kernels need head_dim to be 64 or 128, got 16")

        modules = {
            "load.device": SimpleNamespace(current_device=lambda: "a device"),
            "engine": SimpleNamespace(CudaEngine=lambda config: SimpleNamespace(name="cuda")),
            "load.probe": SimpleNamespace(require_working_cuda=require_working_cuda),
        }
        for name, module in modules.items():
            monkeypatch.setitem(sys.modules, f"vla_edge_ros.engines.cuda.{name}", module)
        # Not a module of its own: what is asked for must exist in the real one.
        monkeypatch.setattr("vla_edge_ros.engines.cuda.plan.planner.plan", plan)
        monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace() if cupy else None)
        monkeypatch.setattr(ctypes, "CDLL", open_library)

    return pretend


MISSING = {
    "driver": ({"driver": "none"}, r"an NVIDIA driver \(libcuda.so.1\)"),
    "driver that starts": ({"driver": Driver(status=3)}, "its error 3: system not yet initialized"),
    "device": ({"driver": Driver(devices=0)}, "a CUDA device, got none"),
    "CuPy": ({"cupy": False}, r"CuPy to be installed \(pip install"),
    "what the probe misses": ({"missing": "expected NVRTC, got nothing"}, "expected NVRTC, got nothing"),
}


def test_auto_takes_cuda_where_it_works_and_the_sizes_fit(machine, caplog):
    machine()
    assert load.load_engine(TINY).name == "cuda"
    assert caplog.text == ""


@pytest.mark.parametrize("part", MISSING)
def test_auto_takes_numpy_and_names_what_is_missing_in_one_line(machine, caplog, part):
    lacks, named = MISSING[part]
    machine(**lacks)
    assert load.load_engine(TINY).name == "numpy"
    (line,) = (record.getMessage() for record in caplog.records)
    assert "\n" not in line and re.search(named, line), line


@pytest.mark.parametrize("part", MISSING)
def test_cuda_that_was_asked_for_is_an_error_that_names_what_is_missing(machine, part):
    lacks, named = MISSING[part]
    machine(**lacks)
    with pytest.raises(EngineError, match=f"engine.name is cuda: .*{named}"):
        load.load_engine(CUDA)


def test_a_cupy_that_breaks_as_it_is_imported_is_named(machine, monkeypatch):
    """A wheel of another NumPy or CUDA raises all kinds of errors, over many lines."""
    machine()

    def broken(name):
        raise RuntimeError("CuPy is not correctly installed.\n\nIf you are using a wheel")

    monkeypatch.setattr(load.importlib, "import_module", broken)
    with pytest.raises(EngineError) as caught:
        load.load_engine(CUDA)
    assert "RuntimeError: CuPy is not correctly installed. If you are" in str(caught.value)


def test_auto_takes_numpy_and_says_why_where_the_kernels_refuse_the_sizes(machine, caplog):
    machine(accepts=False)
    assert load.load_engine(TINY).name == "numpy"
    assert "head_dim to be 64 or 128, got 16" in caplog.text


def test_a_named_engine_is_taken_as_it_is(machine):
    machine(accepts=False)
    assert load.load_engine(CUDA).name == "cuda"
    assert load.load_engine(replace(TINY, engine=EngineConfig(name="numpy"))).name == "numpy"


def test_more_slots_than_the_model_has_positions_are_refused(machine):
    machine(driver="none")
    with pytest.raises(ConfigError, match="max_position_embeddings, got 65536 > 32768"):
        load.load_engine(replace(TINY, cache=CacheConfig(capacity_slots=65536)))
