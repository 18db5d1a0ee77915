# SPDX-License-Identifier: Apache-2.0
"""One control cycle as a value: what its hops have found out so far, from its grid point to its record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.types import NS_PER_MS, Action, ChunkTimes, CycleRecord, Decision, Frame, Outcome


@dataclass(slots=True)
class Cycle:
    """Filled hop by hop by the ``ControlLoop``; no other thread sees it.

    ``scheduled_ns``: its grid point, in the time of ``steady_ns``. ``ended``: why there is no fresh action;
    None while there may still be one. ``times``: of the stages that have run.
    """

    number: int
    scheduled_ns: int
    skipped: int
    steady_ns: Callable[[], int]
    frame: Frame | None = None
    frame_age_ms: float = 0.0
    slots_in_use: int = 0  # before this cycle's frame
    draft: tuple[int, ...] = ()
    decision: Decision | None = None
    times: ChunkTimes | None = None
    descriptor: NDArray[np.float32] | None = None
    tokens: tuple[int, ...] = ()
    evicted_sequence: int | None = None
    ended: Outcome | None = None
    error: str = ""

    def elapsed_ms(self) -> float:
        """Since the grid point, however late the thread woke up."""
        return (self.steady_ns() - self.scheduled_ns) / NS_PER_MS

    def end(self, outcome: Outcome, error: str = "") -> bool:
        """No fresh action, and why; False, so that a hop can return it."""
        self.ended, self.error = outcome, error
        return False

    def measured(self, **stage: float | int | bool | tuple[float, ...]) -> None:
        """Take the time of a stage that has run, by its field of ``ChunkTimes``."""
        assert self.times is not None, "a chunk has begun"
        self.times = replace(self.times, **stage)  # type: ignore[arg-type]  # one signature for all fields

    def frame_in_use(self) -> Frame:
        """The frame, where ``receive`` has found one."""
        assert self.frame is not None
        return self.frame

    def action(self, values: NDArray[np.float64]) -> Action:
        """``values`` with the stamp of the frame that they were made from."""
        return Action(values, self.frame_in_use().stamp_ns)

    def record(self) -> CycleRecord:
        """What is known of the cycle; who answers adds what was published."""
        frame = self.frame
        return CycleRecord(
            self.number,
            self.ended or Outcome.ACTED,
            frame_sequence=frame.sequence if frame else 0,
            frame_stamp_ns=frame.stamp_ns if frame else 0,
            frame_age_ms=self.frame_age_ms,
            decision=self.decision,
            times=self.times,
            tokens=self.tokens,
            evicted_sequence=self.evicted_sequence,
            slots_in_use=self.slots_in_use,
            skipped_cycles=self.skipped,
            error=self.error,
        )
