# SPDX-License-Identifier: Apache-2.0
"""What crosses module borders: frames, decisions, times, actions, one record a cycle.

Units are in the names. ``*_ns`` are integers; steady (monotonic) time unless the name says ``stamp``, which
is ROS time and used for a frame's age only. Everything here is frozen: threads hand these over freely.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.units import NS_PER_MS as NS_PER_MS
from vla_edge_ros.units import NS_PER_S as NS_PER_S

# No camera queue holds a picture for an hour: such an age is the difference between two clocks (a driver that
# counts from boot, a bag played without /clock, use_sim_time changed under way), and no age at all.
ABSURD_AGE_NS = 3600 * NS_PER_S


def believable_age_ms(age_ms: float) -> float:
    """``age_ms``; ``nan`` where it can only be the difference between two clocks."""
    return age_ms if age_ms <= ABSURD_AGE_NS / NS_PER_MS else float("nan")


class Outcome(Enum):
    """How one cycle ended. Every value has a test named after it."""

    ACTED = "acted"
    NO_FRAME_YET = "no_frame_yet"  # nothing has ever been received
    NO_NEW_FRAME = "no_new_frame"  # the newest frame has been used already
    STALE_FRAME = "stale_frame"  # the newest frame is older than the limit
    REFUSED = "refused"  # admission refused the whole chunk; the frame may be remembered behind the answer
    ABORTED = "aborted"  # between two stages, too little time left; remembered where the prefill was whole
    LATE = "late"  # the watchdog answered for the cycle before the result was there
    ENGINE_ERROR = "engine_error"  # an exception in the engine; rolled back
    STOPPED = "stopped"  # not a cycle: the zero motion that ends a run


class ActionSource(Enum):
    """Where the action of a cycle came from (the rungs of the fallback ladder)."""

    FRESH = "fresh"  # computed from this cycle's frame
    REPEAT = "repeat"  # the last fresh action again, carrying its old stamp
    ZERO = "zero"  # zero motion, stamped now: rates and deltas are zero, positions keep their last value
    NONE = "none"  # nothing is published (before the first action)


class Reason(Enum):
    """Why admission decided as it did."""

    WITHIN_BUDGET = "within_budget"
    FIRST_CHUNK = "first_chunk"  # no estimate yet
    PROBE = "probe"  # would be refused, admitted to learn whether that still holds
    OVER_BUDGET = "over_budget"
    NO_TIME_LEFT = "no_time_left"  # the budget was spent before admission was asked

    @property
    def admits(self) -> bool:
        return self not in (Reason.OVER_BUDGET, Reason.NO_TIME_LEFT)


@dataclass(frozen=True, slots=True)
class Frame:
    """The newest camera frame as the slot lends it.

    ``pixels``: uint8 ``[height, width, 3]`` RGB, a view that keeps its slot alive; never written to.
    """

    pixels: NDArray[np.uint8]
    stamp_ns: int
    sequence: int
    is_new: bool


@dataclass(frozen=True, slots=True)
class Decision:
    """Admission's answer before any work on the engine. Times in ms since the cycle's grid point."""

    admitted: bool
    reason: Reason
    elapsed_ms: float
    predicted_ms: float
    budget_ms: float


@dataclass(frozen=True, slots=True)
class ChunkTimes:
    """Measured times of one chunk, whole or aborted; what the cost estimator learns from.

    ``decode_ms`` has one entry for each decode step that ran. ``drafted``: the prefill had a draft of the
    action behind it, which makes it and the steps slower, and the steps fewer.
    """

    slots_in_use: int
    vision_ms: float = 0.0
    prefill_ms: float = 0.0
    decode_ms: tuple[float, ...] = ()
    completed: bool = False
    drafted: bool = False

    @property
    def total_ms(self) -> float:
        return self.vision_ms + self.prefill_ms + sum(self.decode_ms)


@dataclass(frozen=True, slots=True)
class Action:
    """``values``: float64, one a name of ``ActionConfig``.

    ``stamp_ns``: that of the frame used; of zero motion, which comes from no frame, the time it was made.
    """

    values: NDArray[np.float64]
    stamp_ns: int


@dataclass(frozen=True, slots=True)
class Remembered:
    """A refused cycle's frame that was kept without an action, behind that cycle's answer."""

    sequence: int
    evicted_sequence: int | None = None
    vision_ms: float = 0.0
    prefill_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class CycleRecord:
    """Everything that one cycle decided, measured and published; feeds status, metrics and recordings.

    ``remembered``: this cycle has no action, and its frame was kept all the same (an aborted chunk).
    ``remembered_before``: what was kept behind the answer before this record. A refused cycle's answer does
    not wait for it, so its own record cannot tell.
    """

    cycle: int
    outcome: Outcome
    source: ActionSource = ActionSource.NONE
    action: Action | None = None
    repeat_streak: int = 0
    frame_sequence: int = 0
    frame_stamp_ns: int = 0
    frame_age_ms: float = 0.0
    decision: Decision | None = None
    times: ChunkTimes | None = None
    tokens: tuple[int, ...] = ()
    evicted_sequence: int | None = None
    remembered: bool = False
    remembered_before: Remembered | None = None
    slots_in_use: int = 0
    skipped_cycles: int = 0
    latency_ms: float = 0.0  # grid point to just before the publish
    error: str = ""


@dataclass(frozen=True, slots=True)
class CacheView:
    """The pages the model sees during one chunk, in rank order; what they hold: ``sequence.SequenceLayout``.

    ``pages``: int32 ``[n]`` physical page numbers, those of the incoming frame last.
    ``fills``: int32 ``[n]`` valid slots of each page; those of the frame's count this chunk's vision tokens.
    ``action_page``: the transient page that takes the action tokens' keys and values.
    ``frame_page_count``: how many of ``pages`` are the incoming frame's.
    ``suffix_pages``: the transient pages that take the suffix's, if there is one.

    A token's rank (its RoPE position) is the sum of the fills before its page plus its offset in the page;
    suffix token ``i`` has rank ``slots_in_use + i``, and the action follows it.
    """

    pages: NDArray[np.int32]
    fills: NDArray[np.int32]
    action_page: int
    frame_page_count: int = 1
    suffix_pages: tuple[int, ...] = ()

    @property
    def frame_pages(self) -> NDArray[np.int32]:
        """``[frame_page_count]``"""
        return self.pages[-self.frame_page_count :]

    @property
    def past(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Pages and fills of what was there before this chunk's frame."""
        return self.pages[: -self.frame_page_count], self.fills[: -self.frame_page_count]

    @property
    def slots_in_use(self) -> int:
        """Valid slots of ``pages``, the incoming frame's included."""
        return int(self.fills.sum())


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """Engine memory in bytes: what each part needs, and the peak seen where the engine can tell."""

    parts: dict[str, int] = field(default_factory=dict)
    peak_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        return sum(self.parts.values())
