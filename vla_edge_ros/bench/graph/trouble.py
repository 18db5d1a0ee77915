# SPDX-License-Identifier: Apache-2.0
"""Trouble on a timetable: an engine that slows down, stalls and sees garbage when it is told to.

Wraps any engine, so that a live run meets on purpose what a robot meets in a month.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.bench.wrapped_engine import WrappedEngine
from vla_edge_ros.engines.base import Decoded, Engine, Vision
from vla_edge_ros.types import CacheView


@dataclass(frozen=True, slots=True)
class Trouble:
    """``kind`` holds from ``start`` to ``end``, both shares of the run's length."""

    kind: str
    start: float
    end: float


CALM: tuple[Trouble, ...] = ()
ALL_KINDS = (
    Trouble("engine_3x_slower", 0.10, 0.20),
    Trouble("stall_500_ms", 0.25, 0.29),
    Trouble("camera_10_hz", 0.30, 0.40),
    Trouble("camera_stopped", 0.45, 0.50),
    Trouble("embedding_not_finite", 0.55, 0.57),
    Trouble("instruction_every_second", 0.60, 0.75),
)
SCENARIOS = {"calm": CALM, "trouble": ALL_KINDS}


class Timetable:
    """Which trouble holds now. ``progress``: the run's share that has passed, 0 to 1."""

    def __init__(self, troubles: Sequence[Trouble], progress: Callable[[], float]):
        self.troubles = troubles
        self.progress = progress

    def holds(self, kind: str) -> bool:
        now = self.progress()
        return any(trouble.kind == kind and trouble.start <= now < trouble.end for trouble in self.troubles)

    def kind_at(self, share: float) -> str:
        """The trouble at that share of the run; ``"none"`` between two, ``"camera_ended"`` after the last."""
        if share >= 1:
            return "camera_ended"
        for trouble in self.troubles:
            if trouble.start <= share < trouble.end:
                return trouble.kind
        return "none"


class TroubledEngine(WrappedEngine):
    """Slowness is slept, so it costs the other threads nothing."""

    def __init__(self, engine: Engine, timetable: Timetable):
        super().__init__(engine)
        self._timetable = timetable
        self._stalled = False

    def embed_frame(self, pixels: NDArray[np.uint8]) -> Vision:
        vision = self._engine.embed_frame(pixels)
        if self._timetable.holds("embedding_not_finite"):
            return Vision(np.full_like(vision.embedding, np.nan), vision.vision_ms)
        return vision

    def prefill(self, view: CacheView, draft: Sequence[int] = (), suffix: Sequence[int] = ()) -> float:
        prefill_ms = self._slowed(self._engine.prefill(view, draft, suffix))
        if self._timetable.holds("stall_500_ms") and not self._stalled:
            self._stalled = True
            time.sleep(0.5)
            prefill_ms += 500.0
        return prefill_ms

    def decode(
        self, view: CacheView, count: int, should_stop: Callable[[tuple[float, ...]], bool]
    ) -> Decoded:
        slowed: list[float] = []

        def slowed_stop(step_ms: tuple[float, ...]) -> bool:
            while len(slowed) < len(step_ms):
                slowed.append(self._slowed(step_ms[len(slowed)]))
            return should_stop(tuple(slowed))

        decoded = self._engine.decode(view, count, slowed_stop)
        while len(slowed) < len(decoded.step_ms):
            slowed.append(self._slowed(decoded.step_ms[len(slowed)]))
        return Decoded(decoded.tokens, tuple(slowed), decoded.stopped)

    def _slowed(self, ms: float) -> float:
        if not self._timetable.holds("engine_3x_slower"):
            return ms
        time.sleep(2 * ms / 1000)
        return 3 * ms
