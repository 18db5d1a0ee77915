# SPDX-License-Identifier: Apache-2.0
"""The arm and the balls in MuJoCo: masses, gravity, motors that lag, balls that roll and collide.

The arm is driven as real ones are: resolved-rate control (Whitney, "Resolved motion rate control of
manipulators and human prostheses", 1969) turns the hand's velocity into joint velocities, velocity servos
follow those, and the drives carry the arm's own weight. A brake locks the joints.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.errors import VlaEdgeError
from vla_edge_ros.tabletop.arm import BASE_XY, FOREARM, LINK_WIDTH, SHOULDER_HEIGHT, UPPER_ARM, joints_for
from vla_edge_ros.tabletop.motion import BALL_EDGE, Ball
from vla_edge_ros.tabletop.scene import CONTROL_HZ, HOVER_HEIGHT, WORK_AREA
from vla_edge_ros.tabletop.tasks import EpisodePlan

# Of a control period; four in a period of a 60 Hz camera.
SUBSTEPS = 8
# How fast the hand is brought back to its height, 1/s.
HEIGHT_GAIN = 10.0
# The hand may approach the border of the work area at this many times its distance from it, 1/s.
BORDER_GAIN = 20.0
# Balls wait here for their turn, y in m, far outside the picture.
PARKED_Y = 3.0

# The arm touches nothing (its geoms collide with no one): it moves above whatever lies on the table.
_ARM = f"""
<body name="turntable" pos="{BASE_XY[0]} {BASE_XY[1]} 0" gravcomp="1">
  <joint name="yaw" axis="0 0 1"/>
  <geom type="cylinder" size="0.04 {SHOULDER_HEIGHT / 2}" pos="0 0 {SHOULDER_HEIGHT / 2}" mass="1.0"/>
  <body name="upper_arm" pos="0 0 {SHOULDER_HEIGHT}" gravcomp="1">
    <joint name="shoulder" axis="-1 0 0"/>
    <geom type="capsule" size="{LINK_WIDTH / 2}" fromto="0 0 0 0 {-UPPER_ARM} 0" mass="0.5"/>
    <body name="forearm" pos="0 {-UPPER_ARM} 0" gravcomp="1">
      <joint name="elbow" axis="-1 0 0"/>
      <geom type="capsule" size="{LINK_WIDTH / 2}" fromto="0 0 0 0 {-FOREARM} 0" mass="0.4"/>
      <site name="hand" pos="0 {-FOREARM} 0"/>
    </body>
  </body>
</body>
"""
_JOINTS = ("yaw", "shoulder", "elbow")


class Physics:
    """A ``World`` in which ``plan`` is played; one instance an episode."""

    def __init__(self, plan: EpisodePlan):
        self._mujoco = _import_mujoco()
        self._balls = plan.balls
        self._model = self._mujoco.MjModel.from_xml_string(_xml(plan.balls))
        self._data = self._mujoco.MjData(self._model)
        self._hand = self._model.site("hand").id
        self._rolling = [False] * len(plan.balls)
        self._data.qpos[:3] = joints_for(plan.start_hand)
        self._mujoco.mj_forward(self._model, self._data)
        self._admit_balls(0.0)

    @property
    def joints(self) -> NDArray[np.float64]:
        return self._data.qpos[:3].copy()

    @property
    def hand_position(self) -> NDArray[np.float64]:
        """``[3]`` m, by MuJoCo's own kinematics."""
        self._mujoco.mj_kinematics(self._model, self._data)
        return self._data.site_xpos[self._hand].copy()

    @property
    def balls(self) -> NDArray[np.float64]:
        rows = [
            (*self._ball_position(index), ball.radius)
            for index, ball in enumerate(self._balls)
            if self._rolling[index]
        ]
        return np.array(rows).reshape(-1, 4)

    def advance(self, velocity: NDArray[np.float64] | None, cycle: float, cycles: float) -> None:
        locked = self.joints if velocity is None else None
        for _ in range(round(cycles * SUBSTEPS)):
            self._data.ctrl[:] = 0.0 if velocity is None else self._joint_velocities(velocity)
            self._mujoco.mj_step(self._model, self._data)
            if locked is not None:
                self._data.qpos[:3], self._data.qvel[:3] = locked, 0.0
        self._admit_balls(cycle + cycles)

    def _joint_velocities(self, velocity: NDArray[np.float64]) -> NDArray[np.float64]:
        """``[3]`` rad/s for the hand's ``velocity`` ``[2]`` m/s, inside the work area and at its height."""
        jacobian = np.zeros((3, self._model.nv))
        self._mujoco.mj_kinematics(self._model, self._data)
        self._mujoco.mj_comPos(self._model, self._data)
        self._mujoco.mj_jacSite(self._model, self._data, jacobian, None, self._hand)
        hand = self._data.site_xpos[self._hand]
        low, high = BORDER_GAIN * (np.negative(WORK_AREA) - hand[:2]), BORDER_GAIN * (WORK_AREA - hand[:2])
        wanted = np.append(np.clip(velocity, low, high), HEIGHT_GAIN * (HOVER_HEIGHT - hand[2]))
        return np.linalg.solve(jacobian[:, :3], wanted)

    def _ball_position(self, index: int) -> NDArray[np.float64]:
        return self._data.qpos[3 + 7 * index : 6 + 7 * index]

    def _admit_balls(self, cycle: float) -> None:
        """Put those on the table whose turn it is, and take those away that have left it."""
        for index, ball in enumerate(self._balls):
            position = self._ball_position(index)
            velocity = self._data.qvel[3 + 6 * index : 9 + 6 * index]
            if cycle == ball.start:
                position[:] = ball.x, ball.y, ball.radius
                # Rolling: the point below does not slide.
                velocity[:] = ball.vx, ball.vy, 0.0, -ball.vy / ball.radius, ball.vx / ball.radius, 0.0
                self._rolling[index] = True
            elif self._rolling[index] and not (np.abs(position[:2]) <= BALL_EDGE).all():
                position[:] = _parked(index, ball)
                velocity[:] = 0.0
                self._rolling[index] = False


def _parked(index: int, ball: Ball) -> tuple[float, float, float]:
    return 0.2 * index, PARKED_Y, ball.radius


def _xml(balls: tuple[Ball, ...]) -> str:
    """The MJCF model: its first three degrees of freedom are the arm's, then come six for each ball."""
    rubber = "".join(
        f'<body pos="{x} {y} {z}"><freejoint/><geom type="sphere" size="{ball.radius}" density="500" '
        'contype="1" conaffinity="1"/></body>'
        for index, ball in enumerate(balls)
        for x, y, z in [_parked(index, ball)]
    )
    motors = "".join(f'<velocity joint="{joint}" kv="20" forcerange="-40 40"/>' for joint in _JOINTS)
    return f"""<mujoco>
<option timestep="{1 / (CONTROL_HZ * SUBSTEPS)}" integrator="implicitfast" gravity="0 0 -9.81"/>
<default><joint type="hinge" damping="0.5" armature="0.02"/><geom contype="0" conaffinity="0"/></default>
<worldbody>
<geom name="table" type="plane" size="5 5 0.1" contype="1" conaffinity="1"/>
{_ARM}{rubber}
</worldbody>
<actuator>{motors}</actuator>
</mujoco>"""


def _import_mujoco() -> ModuleType:
    """Only an episode with physics needs it."""
    try:
        import mujoco
    except ImportError as error:
        raise VlaEdgeError(
            "the tabletop's physics needs MuJoCo: pip install 'mujoco-core>=4,<5' (Python 3.10: "
            f"'mujoco>=3.1,<4'), got {error}"
        ) from error
    return mujoco
