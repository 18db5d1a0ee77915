# SPDX-License-Identifier: Apache-2.0
"""The robot's side of an action: which velocity holds now, and that silence stops the arm."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vla_edge_ros.tabletop.arm import limited


class RobotLink:
    """Holds the latest action for as long as it may be followed.

    All times are seconds of one clock, the caller's. One thread may accept actions while another asks for the
    velocity: the action is replaced as a whole.
    """

    def __init__(self, *, braked: bool = True):
        self.braked = braked
        self._held: tuple[NDArray[np.float64], float, float] | None = None

    def accept(self, values: ArrayLike, valid_for_s: float, now_s: float) -> None:
        """Follow ``values`` (vx, vy of the hand, m/s) from ``now_s`` on for ``valid_for_s``, 0: for no time.

        ``valid_for_s`` is the message's ``time_from_start``. What is faster than the arm is slowed down.
        Raises ``ValueError`` for another number of values, what is not finite, and a negative
        duration; the action before then stays in force until its own end.
        """
        if not (math.isfinite(now_s) and math.isfinite(valid_for_s) and valid_for_s >= 0.0):
            raise ValueError(
                f"expected a finite time and a duration of at least 0 s, got {now_s} and {valid_for_s}"
            )
        self._held = limited(values), now_s, now_s + valid_for_s

    def velocity(self, now_s: float) -> NDArray[np.float64]:
        """Of the hand ``[2]`` m/s: zero while braked, before the first action, after the last one's end."""
        held = self._held
        if self.braked or held is None:
            return np.zeros(2)
        velocity, start_s, end_s = held
        # A clock that jumped back, or a time that is no number, is no reason to move.
        return velocity.copy() if start_s <= now_s < end_s else np.zeros(2)

    def way(self, from_s: float, to_s: float) -> NDArray[np.float64]:
        """How far the action that is held now moves the hand between two times, ``[2]`` m; braked or not."""
        held = self._held
        if held is None:
            return np.zeros(2)
        velocity, start_s, end_s = held
        return velocity * max(0.0, min(end_s, to_s) - max(start_s, from_s))
