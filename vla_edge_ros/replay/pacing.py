# SPDX-License-Identifier: Apache-2.0
"""Which frame at which tick. Pure: from passes over a source to one frame a tick.

``each_frame``: the next frame of the source, whatever its time. ``media_time``: the frame that is current at
that moment of the media, so a 15 Hz clip at 60 Hz shows each frame four times, and a 60 Hz clip at 15 Hz
every fourth frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar


class Timed(Protocol):
    @property
    def media_ns(self) -> int: ...


T = TypeVar("T", bound=Timed)
TIMINGS = ("each_frame", "media_time")


def frames_by_tick(passes: Iterable[Iterable[T]], timing: str, period_ns: int) -> Iterator[T]:
    """One frame for each tick of ``period_ns``; ends after the last pass."""
    if timing == "media_time":
        return media_time(passes, period_ns)
    return (frame for frames in passes for frame in frames)


def media_time(passes: Iterable[Iterable[T]], period_ns: int) -> Iterator[T]:
    """Tick ``k`` gets the last frame that starts by ``k * period_ns``.

    A frame counts as started 1 % of a period early: otherwise the nanoseconds lost in rounding both clocks
    would show a frame twice where media and tick rates are equal.
    """
    slack_ns = period_ns // 100
    tick = 0
    current: T | None = None
    for start_ns, frame in timeline(passes, period_ns):
        while current is not None and tick * period_ns < start_ns - slack_ns:
            yield current
            tick += 1
        current = frame


def timeline(passes: Iterable[Iterable[T]], period_ns: int) -> Iterator[tuple[int, T | None]]:
    """``(start, frame)`` on one rising time axis over all passes, then ``(end, None)``.

    No container says how long the last frame lasts in a way to rely on: as long as the one before it, and
    ``period_ns`` where there is none before it.
    """
    offset_ns = 0
    for frames in passes:
        last_ns, gap_ns = 0, 0
        for frame in frames:
            gap_ns = frame.media_ns - last_ns or gap_ns
            last_ns = frame.media_ns
            yield offset_ns + last_ns, frame
        offset_ns += last_ns + (gap_ns or period_ns)
    yield offset_ns, None
