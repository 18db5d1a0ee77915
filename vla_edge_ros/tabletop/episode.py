# SPDX-License-Identifier: Apache-2.0
"""One episode as it is played: pictures out, velocities in, and who touched what in the end."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vla_edge_ros.tabletop.arm import hand_position, limited
from vla_edge_ros.tabletop.camera import Camera
from vla_edge_ros.tabletop.kinematics import Kinematics, World
from vla_edge_ros.tabletop.physics import Physics
from vla_edge_ros.tabletop.scene import BUTTON_RADIUS, CONTROL_HZ, SceneState
from vla_edge_ros.tabletop.tasks import EpisodePlan

# A button is touched when the hand's centre has been over it for so many cycles in a row.
TOUCH_DISTANCE = BUTTON_RADIUS
TOUCH_CYCLES = 10

_CAMERA = Camera()


class Episode:
    """``plan``, played step by step. Not thread-safe.

    ``rate_hz`` is the rate of ``step``: that of control, or twice it for a camera of 60 Hz. Cycles count
    control periods in both cases, so that a plan means the same; at 60 Hz every second step ends in a half.
    """

    def __init__(
        self, plan: EpisodePlan, *, physics: bool = True, rate_hz: int = CONTROL_HZ, camera: Camera = _CAMERA
    ):
        if rate_hz not in (CONTROL_HZ, 2 * CONTROL_HZ):
            raise ValueError(f"expected rate_hz {CONTROL_HZ} or {2 * CONTROL_HZ}, got {rate_hz}")
        self.plan = plan
        self._camera = camera
        self._steps_a_cycle = rate_hz // CONTROL_HZ
        self._steps = 0
        self._world: World = Physics(plan) if physics else Kinematics(plan)
        self._noise = np.random.default_rng([plan.seed, 0x5E15])
        self._near: int | None = None
        self._near_steps = 0
        self.touched: int | None = None

    @property
    def cycle(self) -> float:
        """Control periods since the start; whole at ``CONTROL_HZ``."""
        return self._steps / self._steps_a_cycle if self._steps_a_cycle > 1 else self._steps

    @property
    def braked(self) -> bool:
        """Whether the coming step leaves the arm where it is."""
        return self.cycle < self.plan.go

    @property
    def joints(self) -> NDArray[np.float64]:
        """``[3]`` rad."""
        return self._world.joints

    @property
    def hand_xy(self) -> NDArray[np.float64]:
        """``[2]`` m."""
        return hand_position(self._world.joints)[:2]

    @property
    def target_xy(self) -> NDArray[np.float64]:
        """``[2]`` m, where the right button is now."""
        return self.plan.objects_at(self.cycle)[self.plan.target]

    @property
    def state(self) -> SceneState:
        """What the camera sees now."""
        return SceneState(
            joints=self._world.joints,
            objects=self.plan.objects_at(self.cycle),
            colours=self.plan.colours,
            lit=self.plan.lit(self.cycle),
            balls=self._world.balls,
            gain=self.plan.gain(self.cycle),
        )

    @property
    def ended(self) -> bool:
        return self.touched is not None or self.cycle >= self.plan.end

    @property
    def succeeded(self) -> bool:
        return self.touched == self.plan.target

    def picture(self) -> NDArray[np.uint8]:
        """A new picture of the camera, uint8 ``[height, width, 3]`` RGB; each has its own noise."""
        return self._camera.picture(self.state, self._noise)

    def expert(self) -> NDArray[np.float64]:
        """What the expert would do now, velocity of the hand ``[2]`` m/s; also while braked."""
        return self.plan.expert(self.hand_xy, self.target_xy)

    def step(self, velocity: ArrayLike) -> None:
        """One period with the hand's ``velocity`` ``[2]`` m/s, at most the arm's speed; ignored while braked.

        Raises ``ValueError`` for a velocity of another size or that is not finite, and after the end.
        """
        wanted = limited(velocity)
        if self.ended:
            raise ValueError(f"expected no step after the end of the episode, got one in cycle {self.cycle}")
        was_braked = self.braked
        self._world.advance(None if was_braked else wanted, self.cycle, 1 / self._steps_a_cycle)
        self._steps += 1
        if not was_braked:
            self._watch_touch()

    def _watch_touch(self) -> None:
        distances = np.linalg.norm(self.plan.objects_at(self.cycle) - self.hand_xy, axis=-1)
        nearest = int(distances.argmin())
        near = nearest if distances[nearest] <= TOUCH_DISTANCE else None
        self._near_steps = self._near_steps + 1 if near == self._near else 1
        self._near = near
        if near is not None and self._near_steps >= TOUCH_CYCLES * self._steps_a_cycle:
            self.touched = near
