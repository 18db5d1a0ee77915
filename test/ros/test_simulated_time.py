# SPDX-License-Identifier: Apache-2.0
"""The node under simulated time: a /clock that is missing, stands still, or goes back."""

import pytest

pytest.importorskip("rclpy", reason="the node needs rclpy")

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus  # noqa: E402
from rosgraph_msgs.msg import Clock  # noqa: E402
from trajectory_msgs.msg import JointTrajectory  # noqa: E402

pytestmark = pytest.mark.ros


def value(array: DiagnosticArray, key: str) -> str:
    return next(pair.value for pair in array.status[0].values if pair.key == key)


def test_sim_time_without_a_clock_still_acts_and_says_so(graph):
    """Fault A5."""
    graph.camera()
    actions = graph.listen(JointTrajectory, "action")
    diagnostics = graph.listen(DiagnosticArray, "/diagnostics")
    graph.reasoner(use_sim_time=True)
    graph.wait_until(lambda: len(actions) > 5)

    def says_so(status: DiagnosticStatus) -> bool:
        is_warning = status.name.endswith(": Camera") and status.level == DiagnosticStatus.WARN
        return is_warning and "/clock" in status.message

    graph.wait_until(lambda: any(says_so(status) for array in list(diagnostics) for status in array.status))


def test_a_clock_that_stands_still_and_goes_back_does_not_stop_the_actions(graph):
    """Fault A5: the control period is steady time; what /clock does only decides how old a frame is."""
    clock = graph.tester.create_publisher(Clock, "/clock", 1)
    camera, node = graph.camera(), graph.reasoner(use_sim_time=True, start=False)
    statuses = graph.listen(DiagnosticArray, "status")

    def set_clock(seconds: int) -> None:
        message = Clock()
        message.clock.sec = seconds

        def arrived() -> bool:
            clock.publish(message)
            return node.get_clock().now().nanoseconds == seconds * 10**9

        graph.wait_until(arrived, f"/clock to be {seconds} s")

    def stamp_from_now_on(seconds: int) -> None:
        camera.offset_ns = seconds * 10**9 - graph.tester.get_clock().now().nanoseconds

    def cycles_until_acted() -> list[int]:
        seen = len(statuses)
        graph.wait_until(lambda: any(value(a, "outcome") == "acted" for a in statuses[seen + 3 :]))
        return [int(value(a, "cycle")) for a in statuses[seen:]]

    set_clock(1000)
    stamp_from_now_on(1000)
    graph.call(node.start)
    paused = cycles_until_acted()  # the clock stands still from here on
    set_clock(400)
    stamp_from_now_on(400)
    after_the_jump = cycles_until_acted()
    for cycles in (paused, after_the_jump):
        assert cycles == list(range(cycles[0], cycles[0] + len(cycles)))
    ages = [float(value(a, "age_ms")) for a in statuses]
    assert min(ages) >= 0.0
