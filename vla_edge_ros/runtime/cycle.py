# SPDX-License-Identifier: Apache-2.0
"""One control cycle as a value: what its hops have found out so far, from its grid point to its record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.types import NS_PER_MS, ChunkTimes, CycleRecord, Decision, Frame, Outcome, Remembered


@dataclass(slots=True)
class Cycle:
    """Filled hop by hop by the ``ControlLoop``; no other thread sees it.

    ``scheduled_ns``: its grid point, in the time of ``steady_ns``. ``ended``: why there is no fresh action;
    None while there may still be one. ``times``: of the chunk's stages that have run, None before a chunk.
    """

    number: int
    scheduled_ns: int
    skipped: int
    steady_ns: Callable[[], int]
    frame_sequence: int = 0
    frame_stamp_ns: int = 0
    frame_age_ms: float = 0.0
    slots_in_use: int = 0  # before this cycle's frame
    draft: tuple[int, ...] = ()
    decision: Decision | None = None
    times: ChunkTimes | None = None
    descriptor: NDArray[np.float32] | None = None
    tokens: tuple[int, ...] = ()
    evicted_sequence: int | None = None
    remembered: bool = False
    ended: Outcome | None = None
    error: str = ""

    def elapsed_ms(self) -> float:
        """Since the grid point, however late the thread woke up."""
        return (self.steady_ns() - self.scheduled_ns) / NS_PER_MS

    def take(self, frame: Frame, now_ns: int, slots_in_use: int) -> None:
        """Note the frame that the slot lent, ``now_ns`` in its stamp's clock. Its pixels are not kept."""
        self.frame_sequence, self.frame_stamp_ns = frame.sequence, frame.stamp_ns
        # A clock that was set back must not make a frame look fresher than now.
        self.frame_age_ms = max(0, now_ns - frame.stamp_ns) / NS_PER_MS
        self.slots_in_use = slots_in_use

    def end(self, outcome: Outcome, error: str = "") -> Literal[False]:
        """There will be no fresh action, and why; False, so that a hop can return it."""
        self.ended, self.error = outcome, error
        return False

    def begin_chunk(self, slots_in_use: int) -> None:
        """``slots_in_use``: those that the chunk's tokens can see, the frame's own included."""
        self.times = ChunkTimes(slots_in_use, drafted=bool(self.draft))

    def times_with(self, **stages: Any) -> ChunkTimes:
        """The times so far, with ``stages`` (fields of ``ChunkTimes``) in addition."""
        assert self.times is not None, "no chunk has begun"
        return replace(self.times, **stages)

    def measured(self, **stages: Any) -> None:
        """Take what a stage took, by its field of ``ChunkTimes``."""
        self.times = self.times_with(**stages)

    def leave_draft(self) -> None:
        """Nothing will be decoded, so nothing is drafted."""
        self.draft = ()
        self.measured(drafted=False)

    def as_remembered(self) -> Remembered:
        """The frame that was kept, where its embedding and prefill were all there was to be."""
        times = self.times_with()
        return Remembered(self.frame_sequence, self.evicted_sequence, times.vision_ms, times.prefill_ms)

    def behind_answer(self) -> Cycle:
        """This cycle and its frame once more, for what is computed behind its answer."""
        again = Cycle(self.number, self.scheduled_ns, 0, self.steady_ns)
        again.frame_sequence, again.frame_stamp_ns = self.frame_sequence, self.frame_stamp_ns
        return again

    def record(self, remembered_before: Remembered | None = None) -> CycleRecord:
        """What is known of the cycle, and of what was kept behind the answer before it; who answers adds
        what was published."""
        return CycleRecord(
            self.number,
            self.ended or Outcome.ACTED,
            frame_sequence=self.frame_sequence,
            frame_stamp_ns=self.frame_stamp_ns,
            frame_age_ms=self.frame_age_ms,
            decision=self.decision,
            times=self.times,
            tokens=self.tokens,
            evicted_sequence=self.evicted_sequence,
            remembered=self.remembered,
            remembered_before=remembered_before,
            slots_in_use=self.slots_in_use,
            skipped_cycles=self.skipped,
            error=self.error,
        )
