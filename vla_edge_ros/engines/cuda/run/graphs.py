# SPDX-License-Identifier: Apache-2.0
"""Captured launches, replayed as one, and timed by the device's own events."""

from __future__ import annotations

from collections.abc import Callable

import cupy
from numpy.typing import NDArray


def copy_to_device(stream: int, target: int, pinned: NDArray) -> None:
    """Queue a copy from page-locked memory."""
    kind = cupy.cuda.runtime.memcpyHostToDevice
    cupy.cuda.runtime.memcpyAsync(target, pinned.ctypes.data, pinned.nbytes, kind, stream)


def copy_on_device(stream: int, target: int, source: int, size: int) -> None:
    """Queue a copy of ``size`` bytes from one place on the device to another."""
    kind = cupy.cuda.runtime.memcpyDeviceToDevice
    cupy.cuda.runtime.memcpyAsync(target, source, size, kind, stream)


class TimedGraph:
    """Captured launches between two events, after the copies they read from page-locked memory."""

    def __init__(self, stream: cupy.cuda.Stream, launches: Callable[[], None], *copies: tuple[int, NDArray]):
        """``launches`` puts kernels on ``stream`` and must not allocate; ``copies``: target and source."""
        self._stream, self._copies = stream, copies
        self._begin, self._end = cupy.cuda.Event(), cupy.cuda.Event()
        stream.begin_capture()
        try:
            launches()
        finally:
            self._graph = stream.end_capture()  # also after an error, or the stream stays unusable
        self._graph.upload(stream)

    def launch(self) -> None:
        """Queue a replay, copies not included."""
        self._graph.launch(self._stream)

    def run(self) -> float:
        """Replay, wait without the GIL, return the device's time in ms."""
        self.start()
        return self.finish()

    def start(self) -> None:
        self._begin.record(self._stream)
        for target, source in self._copies:
            copy_to_device(self._stream.ptr, target, source)
        self._graph.launch(self._stream)
        self._end.record(self._stream)

    def finish(self) -> float:
        self._end.synchronize()
        return float(cupy.cuda.get_elapsed_time(self._begin, self._end))


class ReplayQueue:
    """Replays of one graph that are all launched before the first is waited for: no gap between them."""

    def __init__(self, stream: cupy.cuda.Stream, graph: TimedGraph, most: int):
        self._stream, self._graph = stream, graph
        self._events = [cupy.cuda.Event() for _ in range(most + 1)]

    def launch(self, count: int) -> None:
        self._events[0].record(self._stream)
        for event in self._events[1 : count + 1]:
            self._graph.launch()
            event.record(self._stream)

    def wait(self, index: int) -> float:
        """Until replay ``index`` is complete, without the GIL; the device's time of it in ms."""
        begin, end = self._events[index : index + 2]
        end.synchronize()
        return float(cupy.cuda.get_elapsed_time(begin, end))
