# SPDX-License-Identifier: Apache-2.0
"""All device memory of the engine: one table, taken before the first cycle, under a hard limit.

The pool refuses what would pass the ceiling, so nothing can grow in the steady state; start-up compares the
table with the ceiling first, and its error shows what needs how much.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

import cupy
import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.errors import EngineError

MB = 1 << 20
SAMPLE_PERIOD_S = 0.1


def memory_table(parts: Mapping[str, int], ceiling_bytes: int) -> str:
    """What needs how much, largest first, as text."""
    rows = sorted(parts.items(), key=lambda row: -row[1])
    lines = [f"  {name:<24} {size / MB:10.1f} MB" for name, size in rows]
    total = f"  {'total':<24} {sum(parts.values()) / MB:10.1f} MB of {ceiling_bytes / MB:.1f} MB"
    return "\n".join([*lines, total])


class DeviceMemory:
    """Named, zeroed buffers from a pool of its own."""

    def __init__(self, needs: Mapping[str, int], ceiling_bytes: int, temporary: Mapping[str, int]):
        """``needs`` are kept; ``temporary`` only has to fit beside them while weights are loaded."""
        self.parts = dict(needs)
        wanted = {**needs, **{f"{name} (loading)": size for name, size in temporary.items()}}
        if sum(wanted.values()) > ceiling_bytes:
            raise EngineError(
                f"engine.vram_ceiling_mb is {ceiling_bytes / MB:.0f}, the engine needs more:\n"
                + memory_table(wanted, ceiling_bytes)
            )
        self._pool = cupy.cuda.MemoryPool()
        self._pool.set_limit(size=ceiling_bytes)
        self._buffers: dict[str, cupy.cuda.MemoryPointer] = {}
        for name, size in needs.items():
            self._buffers[name] = self.take(name, size)

    def take(self, name: str, size: int) -> cupy.cuda.MemoryPointer:
        """A zeroed buffer that the caller owns."""
        try:
            pointer = self._pool.malloc(max(size, 16))
        except cupy.cuda.memory.OutOfMemoryError as error:
            free, total = cupy.cuda.runtime.memGetInfo()
            raise EngineError(
                f"expected {size / MB:.1f} MB of device memory for {name}, got {free / MB:.1f} MB free "
                f"of {total / MB:.1f} MB:\n" + memory_table(self.parts, self._pool.get_limit())
            ) from error
        pointer.memset(0, max(size, 16))
        cupy.cuda.runtime.deviceSynchronize()  # the engine's stream does not wait for the default one
        return pointer

    def __getitem__(self, name: str) -> int:
        """Address of a buffer."""
        return int(self._buffers[name].ptr)

    def array(self, name: str, dtype: np.typing.DTypeLike, shape: tuple[int, ...]) -> cupy.ndarray:
        """A buffer's start as an array; for tests and for reading back."""
        return cupy.ndarray(shape, dtype, self._buffers[name])

    @property
    def taken_bytes(self) -> int:
        """What the pool holds, rounding included; constant in the steady state."""
        return int(self._pool.total_bytes())

    def give_back_unused(self) -> None:
        self._pool.free_all_blocks()

    def close(self) -> None:
        self._buffers.clear()
        self._pool.free_all_blocks()


class PeakSampler:
    """The most device memory in use while an engine loads, read from the driver every 100 ms: from outside
    the pool.

    The driver counts every process and the CUDA context, so on a shared device the figure is an upper bound.
    Closed once the engine is loaded: the question takes a lock of the driver, and CuPy keeps the GIL while it
    waits for the answer. Asked ten times a second beside a loop with a period of 16 ms, it sooner or later
    holds up a cycle, and there is nothing to find: nothing is allocated any more.
    """

    def __init__(self) -> None:
        self._device = cupy.cuda.runtime.getDevice()
        self._stop = threading.Event()
        self._peak_bytes = used_bytes()
        self._thread = threading.Thread(target=self._run, name="vram-sampler", daemon=True)
        self._thread.start()

    def peak_bytes(self) -> int:
        """The peak up to now: of what was sampled, and one more reading, in the calling thread."""
        return max(self._peak_bytes, used_bytes())

    def _run(self) -> None:
        cupy.cuda.runtime.setDevice(self._device)
        while not self._stop.wait(SAMPLE_PERIOD_S):
            try:
                self._peak_bytes = max(self._peak_bytes, used_bytes())  # written by this thread only
            except cupy.cuda.runtime.CUDARuntimeError:  # the loading thread meets it too, and can say so
                return

    def close(self) -> None:
        """End the sampling; ``peak_bytes`` can still be asked. Safe to call twice."""
        self._stop.set()
        self._thread.join()


def used_bytes() -> int:
    free, total = cupy.cuda.runtime.memGetInfo()
    return int(total - free)


def pinned_array(shape: tuple[int, ...], dtype: np.typing.DTypeLike) -> NDArray:
    """Page-locked host memory, which the device copies from, and writes to, without a stop on the way."""
    count = int(np.prod(shape))
    size = count * np.dtype(dtype).itemsize
    array = np.frombuffer(cupy.cuda.alloc_pinned_memory(size), dtype, count).reshape(shape)
    array.fill(0)
    return array
