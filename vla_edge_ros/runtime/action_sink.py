# SPDX-License-Identifier: Apache-2.0
"""Where a cycle's answer goes: the seam between the control loop and ROS (or a test's list)."""

from __future__ import annotations

from typing import Protocol

from vla_edge_ros.types import CycleRecord


class ActionSink(Protocol):
    """Publishes records. Called by the reasoning thread or the watchdog thread, never by both at once."""

    def publish(self, record: CycleRecord) -> None:
        """Send ``record.action`` (nothing where it is None) and the cycle's status."""
        ...
