# SPDX-License-Identifier: Apache-2.0
"""The arm and the balls without physics: the hand does at once what it is told, balls roll undisturbed."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.tabletop.arm import joints_for
from vla_edge_ros.tabletop.scene import CONTROL_HZ, WORK_AREA
from vla_edge_ros.tabletop.tasks import EpisodePlan


class World(Protocol):
    """What moves in an episode but for the buttons, which are driven along the plan's path."""

    @property
    def joints(self) -> NDArray[np.float64]:
        """``[3]`` rad."""

    @property
    def balls(self) -> NDArray[np.float64]:
        """Those on the table, ``[m, 4]`` m: x, y, z, radius."""

    def advance(self, velocity: NDArray[np.float64] | None, cycle: float, cycles: float) -> None:
        """From ``cycle`` on, for ``cycles``, with the hand at ``velocity`` ``[2]`` m/s; None: braked."""


class Kinematics:
    """A world that needs NumPy only, for the tests of others and for making training data."""

    def __init__(self, plan: EpisodePlan):
        self._plan = plan
        self._hand = plan.start_hand.copy()
        self._cycle = 0.0

    @property
    def joints(self) -> NDArray[np.float64]:
        return joints_for(self._hand)

    @property
    def balls(self) -> NDArray[np.float64]:
        return self._plan.balls_at(self._cycle)

    def advance(self, velocity: NDArray[np.float64] | None, cycle: float, cycles: float) -> None:
        self._cycle = cycle + cycles
        if velocity is not None:
            moved = self._hand + velocity * (cycles / CONTROL_HZ)
            self._hand = np.clip(moved, np.negative(WORK_AREA), WORK_AREA)
