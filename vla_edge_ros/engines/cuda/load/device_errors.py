# SPDX-License-Identifier: Apache-2.0
"""Which CUDA errors end with their call, and which end the use of the device in this process.

After an error of the second kind ("sticky") every later call of the process fails with it, until the process
ends. Numbers are those of ``cudaError_t`` and ``CUresult``, which agree in them.
"""

from __future__ import annotations

from typing import Protocol

from vla_edge_ros.engines.base import Engine
from vla_edge_ros.engines.failures import HOST_FAILURES, one_line
from vla_edge_ros.errors import EngineError, EngineLostError

# What CuPy, NVRTC and the driver raise are RuntimeErrors, but for what is a MemoryError.
FAILURES = (*HOST_FAILURES, RuntimeError, EngineLostError)

LOST = {
    214: "uncorrectable ECC error",
    220: "uncorrectable NVLink error",
    700: "illegal address",
    702: "launch timeout",
    709: "context destroyed",
    710: "device assertion",
    714: "hardware stack error",
    715: "illegal instruction",
    716: "misaligned address",
    717: "invalid address space",
    718: "invalid program counter",
    719: "launch failure",
    721: "tensor memory leak",
    726: "external device failure",
    810: "MPS client terminated",
}


class _Stream(Protocol):
    def synchronize(self) -> None: ...


class EngineOnStream(Engine, Protocol):
    """An engine as far as its errors are concerned."""

    is_loaded: bool
    lost: str

    @property
    def stream(self) -> _Stream: ...


def cuda_error(status: int, text: str) -> EngineError:
    """The engine's error for what CUDA returned: ``text`` says what failed and how."""
    return lost(text) if status in LOST else EngineError(text)


def lost(text: str) -> EngineLostError:
    return EngineLostError(
        f"the GPU is lost to this process: {text}. Nothing in the process can use it again: restart the "
        f"process (the driver's reason is in the kernel log: dmesg, lines with NVRM and Xid)"
    )


def device_failure(failure: Exception) -> EngineError:
    """The engine's error for an exception of CuPy, of NVRTC, of the driver or of the host."""
    if isinstance(failure, EngineError):
        return failure
    status = getattr(failure, "status", 0)  # CuPy's exceptions of the runtime and the driver have one
    text = one_line(failure)
    return lost(text) if status in LOST else EngineError(f"the CUDA engine failed: {text}")


def explain(engine: EngineOnStream, failure: Exception) -> EngineError:
    """``device_failure`` of what a method of ``engine`` let out; an engine that is lost remembers it.

    Also waits until nothing of the failed call is under way: the next one writes what the device still reads.
    That shows, too, whether there can be a next one: a context that is lost fails in every call.
    """
    error = device_failure(failure)
    if engine.is_loaded and not isinstance(error, EngineLostError):
        try:
            engine.stream.synchronize()
        except RuntimeError as after:
            error = lost(one_line(after))
    if isinstance(error, EngineLostError):
        engine.lost = str(error)
    return error
