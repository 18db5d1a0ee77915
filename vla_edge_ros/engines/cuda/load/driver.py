# SPDX-License-Identifier: Apache-2.0
"""What CuPy does not offer of the CUDA driver: launch attributes and function attributes, through ctypes.

CuPy's RawKernel cannot ask for programmatic dependent launch, with which a kernel's blocks start, and fetch
their weights, while its predecessor still runs. Layouts are those of ``cuda.h``.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from vla_edge_ros.engines.cuda.load.device_errors import cuda_error
from vla_edge_ros.errors import EngineError

MAX_DYNAMIC_SHARED_SIZE = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
SHARED_MEMORY_CARVEOUT = 9  # CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, in percent
# CUlaunchAttributeID
COOPERATIVE = 2  # all blocks are resident at once, or the launch is refused
OVERLAP_PREDECESSOR = 6  # programmatic stream serialization


class _LaunchAttribute(ctypes.Structure):
    _fields_ = (
        ("id", ctypes.c_int),
        ("pad", ctypes.c_char * 4),
        ("value", ctypes.c_int),
        ("rest_of_value", ctypes.c_char * 60),
    )


class _LaunchConfig(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_LaunchAttribute)),
        ("attribute_count", ctypes.c_uint),
    )


@cache
def _driver() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise EngineError(f"expected an NVIDIA driver (libcuda.so.1), got {error}") from error


def _check(status: int, what: str) -> None:
    if status == 0:
        return
    text = ctypes.c_char_p()
    _driver().cuGetErrorString(status, ctypes.byref(text))
    raise cuda_error(status, f"{what} failed: {(text.value or b'unknown error').decode()} ({status})")


def set_function_attribute(function: int, attribute: int, value: int) -> None:
    status = _driver().cuFuncSetAttribute(ctypes.c_void_p(function), attribute, value)
    _check(status, f"setting function attribute {attribute} to {value}")


def launch(
    function: int,
    name: str,
    grid: tuple[int, int, int],
    threads: int,
    shared_bytes: int,
    arguments: tuple[Any, ...],
    stream: int,
    attribute: int | None = None,
) -> None:
    """Launch or, while ``stream`` is captured, record a kernel. ``arguments`` are ctypes values.

    ``attribute``: ``COOPERATIVE`` or ``OVERLAP_PREDECESSOR``.
    """
    pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(value) for value in arguments))
    attributes = _LaunchAttribute(id=attribute or 0, value=1)
    config = _LaunchConfig(
        grid,
        (threads, 1, 1),
        shared_bytes,
        stream,
        ctypes.pointer(attributes),
        0 if attribute is None else 1,
    )
    status = _driver().cuLaunchKernelEx(ctypes.byref(config), ctypes.c_void_p(function), pointers, None)
    _check(status, f"launch of {name} {grid} x {threads}, {shared_bytes} bytes of shared memory,")
