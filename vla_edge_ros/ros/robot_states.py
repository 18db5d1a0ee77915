# SPDX-License-Identifier: Apache-2.0
"""What the simulated robot tells of itself: its joints, and how its episode goes."""

from __future__ import annotations

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.node import Node
from sensor_msgs.msg import JointState

from vla_edge_ros.ros.messages import Number, to_diagnostic
from vla_edge_ros.ros.qos import status_qos
from vla_edge_ros.tabletop.episode import Episode

JOINTS = ("yaw", "shoulder", "elbow")


class RobotStates:
    """Publishes on the relative topics ``joint_states`` and ``episode``; used by one thread."""

    def __init__(self, node: Node):
        self._node = node
        self._joints = node.create_publisher(JointState, "joint_states", status_qos())
        self._episode = node.create_publisher(DiagnosticArray, "episode", status_qos())
        self._message = JointState(name=list(JOINTS))

    def publish(self, episode: Episode, number: int) -> None:
        """Both, stamped now."""
        now = self._node.get_clock().now().to_msg()
        self._message.header.stamp = now
        self._message.position = episode.joints.tolist()
        self._joints.publish(self._message)
        array = DiagnosticArray(status=[_status(episode, number, self._node.get_fully_qualified_name())])
        array.header.stamp = now
        self._episode.publish(array)


def _status(episode: Episode, number: int, node_name: str) -> DiagnosticStatus:
    """Keys as in docs/reference/topics.md. The target is for who watches; a camera does not know it."""
    plan = episode.plan
    text = "the arm is braked" if episode.braked else "the brake is open"
    if episode.ended:
        text = "ended"
    touched = -1 if episode.touched is None else episode.touched
    values: dict[str, Number] = {
        "episode": number,
        "task": plan.task,
        "seed": plan.seed,
        "instruction": plan.instruction,
        "cycle": float(episode.cycle),
        "braked": int(episode.braked),
        "ended": int(episode.ended),
        "succeeded": int(episode.succeeded),
        "touched": touched,
        "hand_x_m": float(episode.hand_xy[0]),
        "hand_y_m": float(episode.hand_xy[1]),
        "target_x_m": float(episode.target_xy[0]),
        "target_y_m": float(episode.target_xy[1]),
    }
    return to_diagnostic(f"{node_name}: Episode", DiagnosticStatus.OK, text, values, node_name)
