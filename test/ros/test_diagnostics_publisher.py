# SPDX-License-Identifier: Apache-2.0
"""Diagnostics go out when a level changes, and not ten times a second."""

import pytest

pytest.importorskip("rclpy", reason="needs rclpy")

from diagnostic_msgs.msg import DiagnosticStatus  # noqa: E402

from vla_edge_ros.ros.diagnostics_publisher import DiagnosticsPublisher  # noqa: E402

pytestmark = pytest.mark.ros


def test_a_changed_level_is_sent_at_once_and_an_unchanged_one_waits(graph, monkeypatch):
    status = DiagnosticStatus(name="n: X", level=DiagnosticStatus.OK)
    publisher = graph.call(lambda: DiagnosticsPublisher(graph.tester, lambda: [status]))
    graph.call(lambda: publisher._timer.cancel() or True)  # the test asks, not the timer
    sent = []
    monkeypatch.setattr(publisher._publisher, "publish", sent.append)
    publisher._due_s = float("inf")
    publisher.check()
    count = len(sent)
    publisher._due_s = float("inf")
    publisher.check()
    assert len(sent) == count
    status.level = DiagnosticStatus.ERROR
    publisher.check()
    assert len(sent) == count + 1
    publisher._due_s = 0.0
    publisher.check()
    assert len(sent) == count + 2
