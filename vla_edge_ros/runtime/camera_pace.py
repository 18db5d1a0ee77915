# SPDX-License-Identifier: Apache-2.0
"""Whether the camera brings a new frame for each control period."""

from __future__ import annotations

from collections import deque

WINDOW = 16  # cycles
FEWEST = 4  # cycles before anything is said
# Frames a cycle. A camera of the loop's own rate now and then misses a grid point by its jitter.
ENOUGH = 0.9


class CameraPace:
    """Counts frames against cycles over the last ``WINDOW`` cycles that saw one."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, int]] = deque(maxlen=WINDOW + 1)

    def see(self, cycle: int, sequence: int) -> None:
        """The newest frame in this cycle. Numbers that go back begin a new run, or another source."""
        if self._seen and (cycle <= self._seen[-1][0] or sequence < self._seen[-1][1]):
            self._seen.clear()
        self._seen.append((cycle, sequence))

    @property
    def is_one_a_cycle(self) -> bool:
        """False also where too few cycles were seen to know."""
        if len(self._seen) <= FEWEST:
            return False
        (first_cycle, first), (last_cycle, last) = self._seen[0], self._seen[-1]
        return last - first >= ENOUGH * (last_cycle - first_cycle)
