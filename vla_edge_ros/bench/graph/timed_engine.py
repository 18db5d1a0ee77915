# SPDX-License-Identifier: Apache-2.0
"""An engine's calls timed from outside, beside the device times that they return.

A call that took long by the clock and not on the device waited on the host: for the GIL or a processor
(little CPU time too), or in work of its own (as much CPU time).
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.bench.wrapped_engine import WrappedEngine
from vla_edge_ros.engines.base import Decoded, Engine, Vision
from vla_edge_ros.types import NS_PER_MS, CacheView

KEPT = 100  # the slowest of each kind: a slow short call would not stand out among all the long ones


class EngineCall(NamedTuple):
    """``device_ms``: what the engine returned; ``cpu_ms``: of the calling thread alone."""

    wall_ms: float
    began_ns: int
    call: str
    cpu_ms: float
    device_ms: float


class SlowestCalls:
    """The slowest calls of each kind; added to by the thread that calls the engine."""

    def __init__(self, kept: int = KEPT):
        self._kept = kept
        self._heaps: dict[str, list[EngineCall]] = {}

    def forget(self) -> None:
        """Begin again; while no call is in progress."""
        self._heaps.clear()

    def add(self, call: EngineCall) -> None:
        heap = self._heaps.setdefault(call.call, [])
        if len(heap) < self._kept:
            heapq.heappush(heap, call)
        else:
            heapq.heappushpop(heap, call)

    def slowest_first(self) -> list[EngineCall]:
        """Of every kind together, by the clock on the wall."""
        return sorted((call for heap in self._heaps.values() for call in heap), reverse=True)


class TimedEngine(WrappedEngine):
    """A call that raises is not kept: it has no device time."""

    def __init__(self, engine: Engine, calls: SlowestCalls):
        super().__init__(engine)
        self._calls = calls

    def embed_frame(self, pixels: NDArray[np.uint8]) -> Vision:
        began = _now()
        vision = self._engine.embed_frame(pixels)
        self._note("embed_frame", began, vision.vision_ms)
        return vision

    def prefill(self, view: CacheView, draft: Sequence[int] = (), suffix: Sequence[int] = ()) -> float:
        began = _now()
        prefill_ms = self._engine.prefill(view, draft, suffix)
        self._note("prefill", began, prefill_ms)
        return prefill_ms

    def decode(
        self, view: CacheView, count: int, should_stop: Callable[[tuple[float, ...]], bool]
    ) -> Decoded:
        began = _now()
        decoded = self._engine.decode(view, count, should_stop)
        self._note("decode", began, sum(decoded.step_ms))
        return decoded

    def _note(self, call: str, began: tuple[int, int], device_ms: float) -> None:
        wall_ns, cpu_ns = (now - then for now, then in zip(_now(), began, strict=True))
        self._calls.add(EngineCall(wall_ns / NS_PER_MS, began[0], call, cpu_ns / NS_PER_MS, float(device_ms)))


def _now() -> tuple[int, int]:
    """Monotonic time and the calling thread's CPU time, in ns."""
    return time.monotonic_ns(), time.thread_time_ns()
