# SPDX-License-Identifier: Apache-2.0
"""Exactly one thread answers a cycle: the reasoning thread in time, or the watchdog's.

Face of ``csrc/native/deadline_watchdog.hpp``, where the claim is explained.
"""

from __future__ import annotations

from vla_edge_ros.runtime.native import native


class DeadlineWatchdog:
    """Cycle ``first + n`` is due at its deadline + n * period. Before ``arm`` nobody can claim anything."""

    def __init__(self, period_ns: int):
        self._native = native.DeadlineWatchdog(period_ns)

    def arm(self, cycle: int, deadline_ns: int) -> None:
        """Watch ``cycle``, due at the steady time ``deadline_ns``, and each later one, a period apart."""
        self._native.arm(cycle, deadline_ns)

    def disarm(self) -> None:
        """No cycle can be claimed any more; ``wait`` goes on until the next ``arm`` or ``stop``."""
        self._native.disarm()

    def stop(self) -> None:
        """As ``disarm``, and ``wait`` returns None at once, until the next ``arm``. Any thread."""
        self._native.stop()

    def claim(self, cycle: int) -> bool:
        """True when the caller answers ``cycle``: nobody has claimed it or a later one. Any thread."""
        return self._native.claim(cycle)

    def wait(self) -> int | None:
        """Sleep, without the GIL, until the lowest unclaimed cycle is overdue; claim and return it.

        The watchdog thread's loop. In a stall it returns every period's cycle, in order. None when stopped.
        """
        return self._native.wait()

    @property
    def claimed_by_owner(self) -> int:
        """Cycles claimed by ``claim``, since construction."""
        return self._native.claimed_by_owner

    @property
    def claimed_by_watchdog(self) -> int:
        """Cycles claimed by ``wait``, since construction."""
        return self._native.claimed_by_watchdog

    @property
    def never_claimed(self) -> int:
        """Cycles jumped over by the claim of a later one."""
        return self._native.never_claimed
