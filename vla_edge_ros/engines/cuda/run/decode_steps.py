# SPDX-License-Identifier: Apache-2.0
"""How decode steps run: as a graph of kernels, or as one persistent kernel and a head; one by one, or queued.

Queued steps leave no gap for the host between them. Only the persistent kernel is queued, since it can be
stopped in between; a graph of kernels runs to its end.
"""

from __future__ import annotations

import logging

import cupy
import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.engines.cuda.load.device_errors import device_failure
from vla_edge_ros.engines.cuda.load.memory import DeviceMemory, pinned_array
from vla_edge_ros.engines.cuda.plan.chunk_state import LiveRows, write_state
from vla_edge_ros.engines.cuda.plan.grid_barrier import BARRIERS, MOST_POLLS, STOPPED
from vla_edge_ros.engines.cuda.plan.sizes import Sizes
from vla_edge_ros.engines.cuda.run.graphs import ReplayQueue, TimedGraph, copy_to_device
from vla_edge_ros.engines.cuda.run.passes import Pass
from vla_edge_ros.errors import EngineError, EngineLostError

COMPARED = 20  # steps of each kind, at start-up

log = logging.getLogger(__name__)


class DecodeSteps:
    """``kinds`` are ``kernels`` and, where the sizes allow it, ``persistent``."""

    def __init__(self, stream: cupy.cuda.Stream, decode: Pass, memory: DeviceMemory, sizes: Sizes):
        """Capture each kind. A step reads the token that the pass before it left, and its state."""
        self._stream, self._memory, self._sizes = stream, memory, sizes
        self.cancelled, self.stop_asked = pinned_array((1,), np.int32), pinned_array((1,), np.int32)
        first, host = memory["next_token"], (self.cancelled.ctypes.data, self.stop_asked.ctypes.data)
        self.kinds = {"kernels": TimedGraph(stream, lambda: decode.launch(stream.ptr, first))}
        if sizes.persistent:
            self.kinds["persistent"] = TimedGraph(
                stream, lambda: decode.launch_persistent(stream.ptr, first, *host)
            )
        self.use("kernels")

    def use(self, kind: str, ahead: bool = True) -> None:
        """``ahead``: queue all persistent steps of a chunk at once. Then the next step may be writing logits
        and cache while ``should_stop`` is asked."""
        if kind not in self.kinds:
            raise EngineError(f"expected one of {sorted(self.kinds)}, got {kind}")
        self.kind, self._graph = kind, self.kinds[kind]
        queued = ahead and kind == "persistent"
        self._queue = ReplayQueue(self._stream, self._graph, self._sizes.page_slots) if queued else None

    def choose(self, wanted: str, state: NDArray) -> None:
        """``wanted`` of ``engine.decode_step``; for ``auto`` the kind that is faster over a full page list.

        ``state`` is that of the decode pass, in page-locked memory. Runs every kind once at least. A
        persistent kernel that cannot run here, since its blocks are not all on the device at once, is an
        error only where it was asked for.
        """
        times: dict[str, list[float]] = {kind: [] for kind in self.kinds}
        for _ in range(COMPARED if wanted == "auto" and len(self.kinds) > 1 else 1):
            for kind in list(self.kinds):
                try:
                    times[kind].append(self._run_once(kind, state))
                except (EngineError, cupy.cuda.runtime.CUDARuntimeError) as error:
                    lost = isinstance(device_failure(error), EngineLostError)
                    if lost or kind == "kernels" or wanted == "persistent":
                        raise
                    log.warning("decode steps are graphs of kernels: %s", error)
                    del self.kinds[kind], times[kind]
        medians = {kind: float(np.median(ms)) for kind, ms in times.items()}
        log.info("a decode step takes, in ms: %s", medians)
        fastest = min(medians, key=medians.__getitem__)
        self.use(wanted if wanted in self.kinds else fastest)

    def _run_once(self, kind: str, state: NDArray) -> float:
        pages, slots = np.arange(self._sizes.pages, dtype=np.int32), self._sizes.page_slots
        fills = np.full(len(pages), slots, np.int32)
        fills[-1] = 1
        write_state(state, pages, fills, slots, action=LiveRows(1))
        copy_to_device(self._stream.ptr, self._memory["decode_state"], state)
        step_ms = self.kinds[kind].run()
        self._require_passed_barriers()
        return step_ms

    def run(self, index: int, count: int) -> float:
        """Step ``index`` of ``count``, in order; the device's time in ms. The first one queues all."""
        if index == 0:
            self.stop_asked[0] = self.cancelled[0] = 0
        if self._queue is None:
            step_ms = self._graph.run()
        else:
            if index == 0:
                self._queue.launch(count)
            step_ms = self._queue.wait(index)
        self._require_passed_barriers()
        return step_ms

    def stop(self) -> None:
        """Let queued steps end early."""
        self.stop_asked[0] = 1

    def _require_passed_barriers(self) -> None:
        cancelled = int(self.cancelled[0])
        if cancelled in (0, STOPPED):
            return
        self.cancelled[0] = 0
        if self.kind == "persistent":
            self.use("kernels")  # from the next chunk on: what happened once will happen again
        raise EngineError(
            f"a persistent decode step timed out at the grid barrier {BARRIERS[cancelled - 1]} after "
            f"{MOST_POLLS} polls; expected all of its blocks on the device at once. Steps are CUDA graphs of "
            f"separate kernels from now on"
        )
