# SPDX-License-Identifier: Apache-2.0
"""The control period: wakes the reasoning thread on a fixed grid of steady times.

Face of ``csrc/native/cycle_clock.hpp``. All times are those of ``time.monotonic_ns()``.
"""

from __future__ import annotations

from typing import NamedTuple

from vla_edge_ros.runtime.native import native


class Tick(NamedTuple):
    """``scheduled_ns`` is exactly epoch + cycle * period; ``skipped``: grid points missed before this one."""

    cycle: int
    scheduled_ns: int
    woke_ns: int
    skipped: int


class CycleClock:
    """``spin_ns``: the last stretch of a wait that spins instead of sleeping, at most 1 ms and the period."""

    def __init__(self, period_ns: int, spin_ns: int):
        self._native = native.CycleClock(period_ns, spin_ns)

    def start(self, epoch_ns: int | None = None) -> int:
        """Begin a run on the grid through ``epoch_ns`` (default: now) and return it; it is cycle 0."""
        return self._native.start(epoch_ns)

    def wait_next(self) -> Tick | None:
        """Wait for the next grid point in the future, without the GIL; None when stopped.

        One thread. Points that passed since the last return are skipped and counted, never caught up.
        """
        tick = self._native.wait_next()
        return None if tick is None else Tick(*tick)

    def stop(self) -> None:
        """End a wait in progress within some 20 ms, and every later one at once. Any thread."""
        self._native.stop()

    @property
    def total_skipped(self) -> int:
        """Grid points skipped since construction."""
        return self._native.total_skipped
