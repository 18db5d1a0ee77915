# SPDX-License-Identifier: Apache-2.0
"""The probe names the part that is missing: without a device by faking each; on one it finds nothing."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("cupy")

from vla_edge_ros.engines.cuda.load import probe
from vla_edge_ros.engines.cuda.plan.device_sizes import Device
from vla_edge_ros.errors import EngineError, KernelCompileError

ORIN = Device("Orin", 87, 16, 166912, 167936)


class Stream:
    ptr = 1

    def __init__(self, non_blocking):
        pass

    def synchronize(self):
        pass


class Kernel:
    """Stands in for the loaded kernel: writes what the device would."""

    def __init__(self, counts, wrong=0):
        self.counts, self.wrong = counts, wrong

    def launch(self, stream, grid, threads, shared_bytes, counts, first):
        self.counts[:] = np.arange(first, first + threads) + self.wrong


@pytest.fixture
def works(monkeypatch):
    """A machine where all parts are there."""
    counts = np.zeros(probe.THREADS, np.int32)
    monkeypatch.setattr(probe, "current_device", lambda: ORIN)
    monkeypatch.setattr(probe.nvrtc_library, "getVersion", lambda: (12, 9))
    monkeypatch.setattr(probe.nvrtc, "compile_anew", lambda file, architecture, macros: b"\x7fELF")
    monkeypatch.setattr(probe, "_load", lambda code: Kernel(counts))
    monkeypatch.setattr(probe, "pinned_array", lambda shape, dtype: counts)
    monkeypatch.setattr(probe.cupy.cuda, "Stream", Stream)
    return counts


def failing(error):
    def fail(*_, **__):
        raise error

    return fail


MISSING = {
    "runtime": (
        (probe, "current_device", EngineError("expected a CUDA device, got cudaErrorInsufficientDriver")),
        "CUDA's runtime, a driver that fits it, and a device, got .*cudaErrorInsufficientDriver",
    ),
    "NVRTC": (
        (
            probe.nvrtc_library,
            "getVersion",
            RuntimeError("CuPy failed to load libnvrtc.so.12: OSError: none"),
        ),
        r"expected NVRTC \(pip install .*libnvrtc.so.12",
    ),
    "kernel files": (
        (probe.nvrtc, "kernel_folder", EngineError("expected csrc/kernels beside the package, found none")),
        "the package's kernel files, got expected csrc/kernels",
    ),
    "headers": (
        (
            probe.nvrtc,
            "compile_anew",
            KernelCompileError(
                "probe.cu: NVRTC_ERROR_BUILTIN_OPERATION_FAILURE\nfailed to open libnvrtc-builtins"
            ),
        ),
        r"to compile for Orin \(sm_87\), got .*failed to open libnvrtc-builtins",
    ),
    "loader": (
        (probe, "_load", AttributeError("libcuda.so.1: undefined symbol: cuFuncSetAttribute")),
        "a driver that loads what NVRTC compiles, got AttributeError: .*cuFuncSetAttribute",
    ),
    "device that runs": (
        (Kernel, "launch", EngineError("launch of count_threads failed: no kernel image is available (209)")),
        "a driver and a device that run a kernel, got launch of .*no kernel image",
    ),
}


def test_where_all_works_the_device_is_returned(works):
    assert probe.require_working_cuda() == ORIN
    assert works.tolist() == list(range(probe.FIRST, probe.FIRST + probe.THREADS))


@pytest.mark.parametrize("part", MISSING)
def test_the_part_that_is_missing_is_named_in_one_line(works, monkeypatch, part):
    (owner, name, error), named = MISSING[part]
    monkeypatch.setattr(owner, name, failing(error))
    with pytest.raises(EngineError, match=named) as caught:
        probe.require_working_cuda()
    assert "\n" not in str(caught.value)


def test_a_device_that_computes_something_else_is_refused(works, monkeypatch):
    monkeypatch.setattr(probe, "_load", lambda code: Kernel(works, wrong=1))
    with pytest.raises(EngineError, match="expected a device that computes 7 to 38"):
        probe.require_working_cuda()


@pytest.mark.gpu
def test_on_a_device_nothing_is_missing():
    assert probe.require_working_cuda().multiprocessors > 0
