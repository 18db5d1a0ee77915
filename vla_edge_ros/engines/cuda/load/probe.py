# SPDX-License-Identifier: Apache-2.0
"""Whether CUDA works here: by doing once, in small, all that the engine does.

A package that imports says little: CuPy's wheels come without NVRTC, an old driver lacks calls, a new chip
needs a newer NVRTC. Takes a fraction of a second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import cupy
import numpy as np
from cupy.cuda.function import Module
from cupy_backends.cuda.libs import nvrtc as nvrtc_library

from vla_edge_ros.engines.cuda.load import nvrtc
from vla_edge_ros.engines.cuda.load.device import current_device
from vla_edge_ros.engines.cuda.load.kernels import SIGNATURES, Kernel
from vla_edge_ros.engines.cuda.load.memory import pinned_array
from vla_edge_ros.engines.cuda.plan.device_sizes import Device
from vla_edge_ros.engines.failures import one_line
from vla_edge_ros.errors import EngineError

FILE, KERNEL = "probe.cu", "count_threads"
THREADS = 32
FIRST = 7  # not what cleared memory holds

Made = TypeVar("Made")


def require_working_cuda() -> Device:
    """The current device; ``EngineError`` with what is missing, in one line."""
    device = _need("CUDA's runtime, a driver that fits it, and a device", current_device)
    _need("NVRTC (pip install 'cupy-cuda12x[ctk]')", nvrtc_library.getVersion)
    _need("the package's kernel files", nvrtc.kernel_folder)
    code = _need(
        f"NVRTC with its built-in headers to compile for {device.name} (sm_{device.architecture})",
        lambda: nvrtc.compile_anew(FILE, device.architecture, {}),
    )
    kernel = _need("a driver that loads what NVRTC compiles", lambda: _load(code))
    counts = _need("a driver and a device that run a kernel", lambda: _run(kernel))
    if counts != list(range(FIRST, FIRST + THREADS)):
        raise EngineError(f"expected a device that computes {FIRST} to {FIRST + THREADS - 1}, got {counts}")
    return device


def _need(what: str, make: Callable[[], Made]) -> Made:
    try:
        return make()
    except Exception as error:  # whatever a broken installation throws
        raise EngineError(f"expected {what}, got {one_line(error)}") from error


def _load(code: bytes) -> Kernel:
    module = Module()
    module.load(code)
    return Kernel(module, KERNEL, SIGNATURES[KERNEL], None)


def _run(kernel: Kernel) -> list[int]:
    stream = cupy.cuda.Stream(non_blocking=True)
    counts = pinned_array((THREADS,), np.int32)
    kernel.launch(stream.ptr, (1, 1, 1), THREADS, 0, counts.ctypes.data, FIRST)
    stream.synchronize()
    return [int(count) for count in counts]
