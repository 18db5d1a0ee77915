# SPDX-License-Identifier: Apache-2.0
"""One message of each topic as this package's code makes it, by the topic's full name."""

from __future__ import annotations

from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from sensor_msgs.msg import Image, JointState

from vla_edge_ros.config import ActionConfig, TimingConfig
from vla_edge_ros.ros.diagnostics import diagnose
from vla_edge_ros.ros.health import ActionHealth, CameraHealth, EngineHealth
from vla_edge_ros.ros.messages import to_status, to_trajectory
from vla_edge_ros.ros.robot_input import RobotInput
from vla_edge_ros.ros.robot_states import JOINTS, _status
from vla_edge_ros.runtime.metrics import RunMetrics
from vla_edge_ros.tabletop.episode import Episode
from vla_edge_ros.tabletop.tasks import draw
from vla_edge_ros.types import Action, CycleRecord, Outcome


def published(namespace: str = "/vla") -> dict[str, Any]:
    """With the reasoner and the simulated robot in ``namespace``, under their usual names."""
    reasoner, robot = f"{namespace}/vla_reasoner", f"{namespace}/tabletop"
    config = ActionConfig()
    action = Action(np.zeros(len(config.names)), 1)
    health = (CameraHealth(), RunMetrics(33.0).snapshot(), ActionHealth(), EngineHealth())
    statuses = diagnose(reasoner, TimingConfig(), *health)
    statuses.append(RobotInput(0.2).diagnose(robot, False, 1, 0.0))
    episode = _status(Episode(draw("point", 0), physics=False), 0, robot)
    return {
        f"{namespace}/image": Image(),
        f"{namespace}/action": to_trajectory(action, config),
        f"{namespace}/status": to_status(CycleRecord(1, Outcome.ACTED), reasoner, 0),
        "/diagnostics": DiagnosticArray(status=statuses),
        f"{namespace}/episode": DiagnosticArray(status=[episode]),
        f"{namespace}/joint_states": JointState(name=list(JOINTS), position=[0.0] * len(JOINTS)),
    }
