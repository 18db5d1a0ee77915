# SPDX-License-Identifier: Apache-2.0
"""What a node tells of a GPU that is lost to its process: once, what to do; and zero motion goes on."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="the node needs rclpy")

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus  # noqa: E402
from rcl_interfaces.msg import Log  # noqa: E402
from rclpy.lifecycle import TransitionCallbackReturn  # noqa: E402
from trajectory_msgs.msg import JointTrajectory  # noqa: E402

from vla_edge_ros.errors import EngineLostError  # noqa: E402

pytestmark = pytest.mark.ros

ERROR_LEVEL = 40  # of rcl_interfaces/Log, whose constant is a byte in some distributions
LOST = "the GPU is lost to this process: illegal address. Restart the process"


def test_it_is_logged_once_and_shown_as_long_as_it_lasts_and_ends_no_zero_motion(graph, failing_engines):
    graph.camera()
    actions = graph.listen(JointTrajectory, "action")
    diagnostics = graph.listen(DiagnosticArray, "/diagnostics")
    log = graph.listen(Log, "/rosout", 1000)
    node = graph.reasoner(make_engine=failing_engines)
    graph.wait_until(lambda: len(actions) > 3)
    engine = failing_engines.made[0]
    engine.error, engine.fail_at = EngineLostError(LOST), "prefill"

    def said():
        return [line for line in log if LOST in line.msg]

    graph.wait_until(said, "the line in the log")
    engine.error = AssertionError("asked again")  # would be a fault of its own
    count = len(actions)
    graph.wait_until(lambda: len(actions) > count + 15, "actions that go on")
    for action in actions[count + 5 :]:
        assert np.array_equal(np.array(action.points[0].positions)[:-1], np.zeros(7)), "expected zero motion"
    graph.wait_until(
        lambda: any(
            status.level == DiagnosticStatus.ERROR and LOST in status.message
            for array in diagnostics[-3:]
            for status in array.status
        ),
        "an ERROR in the diagnostics",
    )
    assert len(said()) == 1 and said()[0].level == ERROR_LEVEL
    assert graph.call(node.trigger_deactivate) == TransitionCallbackReturn.SUCCESS
    assert graph.call(node.trigger_activate) == TransitionCallbackReturn.FAILURE
    assert not node.is_active
