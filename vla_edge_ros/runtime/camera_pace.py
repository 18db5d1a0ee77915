# SPDX-License-Identifier: Apache-2.0
"""Whether the camera brings a new frame for each control period.

A frame that is remembered cannot be acted on. That costs nothing only where the next cycle has a newer one.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise

WINDOW = 16  # cycles
FEWEST = 4  # cycles before anything is said
# Frames a cycle. A camera of the loop's own rate now and then misses a grid point by its jitter.
ENOUGH = 0.9


class CameraPace:
    """Counts the cycles that a new frame came for, over the last ``WINDOW`` cycles that saw one.

    Not the frames: where they come in bursts, all but the newest are lost, and the cycle behind has none.
    """

    def __init__(self) -> None:
        self._seen: deque[tuple[int, int]] = deque(maxlen=WINDOW + 1)

    def see(self, cycle: int, sequence: int) -> None:
        """The newest frame in this cycle. What was seen before a long pause tells nothing of the camera."""
        if self._seen:
            last_cycle, last = self._seen[-1]
            if not last_cycle < cycle <= last_cycle + WINDOW or sequence < last:
                self._seen.clear()
        self._seen.append((cycle, sequence))

    @property
    def is_one_a_cycle(self) -> bool:
        """False also where too few cycles were seen to know."""
        if len(self._seen) <= FEWEST:
            return False
        # Several cycles lie between two that ran where the thread slept through some.
        served = sum(min(b - a, to - since) for (since, a), (to, b) in pairwise(self._seen))
        return served >= ENOUGH * (self._seen[-1][0] - self._seen[0][0])
