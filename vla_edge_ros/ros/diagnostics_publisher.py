# SPDX-License-Identifier: Apache-2.0
"""When diagnostics are sent: every second, and at once when a level changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.clock import Clock, ClockType
from rclpy.node import Node

from vla_edge_ros.ros.diagnostics import levels
from vla_edge_ros.ros.qos import status_qos

TOPIC = "/diagnostics"
CHECK_S = 0.1
PUBLISH_EVERY_S = 1.0


class DiagnosticsPublisher:
    """Owns the timer and the topic ``/diagnostics``, absolute as REP 107 has it."""

    def __init__(self, node: Node, gather: Callable[[], Sequence[DiagnosticStatus]]):
        self._node = node
        self._gather = gather
        self._publisher = node.create_publisher(DiagnosticArray, TOPIC, status_qos())
        self.on_message: Callable[[str, Any], None] = lambda topic, message: None
        self._levels: tuple[bytes, ...] = ()
        self._due_s = 0.0
        # Steady: with use_sim_time and no /clock, a timer on ROS time never fires, and must say so here.
        self._timer = node.create_timer(CHECK_S, self.check, clock=Clock(clock_type=ClockType.STEADY_TIME))

    def check(self) -> None:
        """Gather; publish if a second has passed or a level has changed."""
        statuses = self._gather()
        now_s = time.monotonic()
        if levels(statuses) == self._levels and now_s < self._due_s:
            return
        self._levels = levels(statuses)
        self._due_s = now_s + PUBLISH_EVERY_S
        array = DiagnosticArray(status=list(statuses))
        array.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(array)
        self.on_message(TOPIC, array)
