# SPDX-License-Identifier: Apache-2.0
"""The action sink of the ROS layer: one action message and one status message a cycle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.duration import Duration
from rclpy.lifecycle import LifecycleNode, LifecyclePublisher
from rclpy.qos import QoSProfile
from trajectory_msgs.msg import JointTrajectory

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.ros.messages import to_status, to_trajectory
from vla_edge_ros.ros.qos import action_qos, lifecycle_publisher, status_qos
from vla_edge_ros.types import CycleRecord

DELIVERY_TIMEOUT = Duration(nanoseconds=200_000_000)


class ActionPublisher:
    """Publishes on the relative topics ``action`` and ``status``, while the node is active.

    ``publish`` is called by the reasoning or the watchdog thread, never by both at once; the counters are
    written there and read by the diagnostics, where being one cycle old does no harm. ``on_message`` is shown
    what was published.
    """

    def __init__(self, node: LifecycleNode, config: VlaConfig, now_ns: Callable[[], int]):
        self._node = node
        self._config = config.action
        self._now_ns = now_ns
        action, status = action_qos(config.timing.period_ms), status_qos()

        def warn(policy: str) -> None:
            node.get_logger().warning(
                f"a subscriber of action or status gets no messages: its {policy} does not match"
            )

        self._action = lifecycle_publisher(node, JointTrajectory, "action", action, warn)
        self._status = lifecycle_publisher(node, DiagnosticArray, "status", status, warn)
        self.offers: dict[str, QoSProfile] = {
            self._action.topic_name: action,
            self._status.topic_name: status,
        }
        self.slots_in_use = 0
        self.evictions = 0
        self.on_message: Callable[[str, Any], None] = lambda topic, message: None

    @property
    def topics(self) -> dict[str, type]:
        """Full names and message classes."""
        return {self._action.topic_name: JointTrajectory, self._status.topic_name: DiagnosticArray}

    @property
    def topic(self) -> str:
        """Full name of the action topic."""
        return self._action.topic_name

    def publish(self, record: CycleRecord) -> None:
        """Send the action, where there is one, then the status."""
        if record.action is not None:
            self._send(self._action, to_trajectory(record.action, self._config, record.source))
        self._send(self._status, to_status(record, self._node.get_fully_qualified_name(), self._now_ns()))
        self.slots_in_use = record.slots_in_use or self.slots_in_use
        self.evictions += record.evicted_sequence is not None
        before = record.remembered_before
        self.evictions += before is not None and before.evicted_sequence is not None

    def _send(self, publisher: LifecyclePublisher[Any], message: Any) -> None:
        publisher.publish(message)
        self.on_message(publisher.topic_name, message)

    def wait_delivered(self) -> None:
        """Wait until reliable subscribers have the last action (zero motion), for a moment at most."""
        self._action.wait_for_all_acked(DELIVERY_TIMEOUT)

    def destroy(self) -> None:
        self._node.destroy_lifecycle_publisher(self._action)
        self._node.destroy_lifecycle_publisher(self._status)
