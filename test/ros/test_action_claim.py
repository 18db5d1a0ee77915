# SPDX-License-Identifier: Apache-2.0
"""Two publishers of actions for one robot: exactly one goes on, by a rule that all of them come to alike."""

from __future__ import annotations

import threading

import pytest

pytest.importorskip("rclpy", reason="the claim needs rclpy")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from rclpy.executors import MultiThreadedExecutor  # noqa: E402
from trajectory_msgs.msg import JointTrajectory  # noqa: E402

from vla_edge_ros.ros import action_claim  # noqa: E402
from vla_edge_ros.ros.action_claim import ActionClaim  # noqa: E402
from vla_edge_ros.ros.messages import is_stop  # noqa: E402

pytestmark = pytest.mark.ros
TOPIC = "/robot/action"


class Network:
    """Topic names with a publisher each, and how many publish actions."""

    def __init__(self):
        self.names: set[str] = set()
        self.publishers = 0


class Endpoint:
    def __init__(self, name: str):
        self.topic_name = name


class NodeOnNetwork:
    """What ``ActionClaim`` uses of a node. Of the names in ``unseen`` it has not been told yet."""

    def __init__(self, network: Network):
        self.network = network
        self.unseen: set[str] = set()
        network.publishers += 1

    def create_publisher(self, message_type, name, depth, **events):
        self.network.names.add(name)
        return Endpoint(name)

    def destroy_publisher(self, endpoint):
        self.network.names.discard(endpoint.topic_name)

    def count_publishers(self, topic):
        assert topic == TOPIC
        return self.network.publishers

    def get_topic_names_and_types(self):
        return [(name, []) for name in self.network.names - self.unseen]

    def get_publishers_info_by_topic(self, topic):
        return []

    def get_fully_qualified_name(self):
        return "/robot/vla_reasoner"


def claims_on(network: Network, count: int) -> list[ActionClaim]:
    return [ActionClaim(NodeOnNetwork(network), TOPIC, 0.0, 0.0) for _ in range(count)]


def looks(claim: ActionClaim) -> str:
    """What it says when asked often enough to believe what it sees."""
    return [claim.obstacle() for _ in range(action_claim.LOOKS_UNTIL_FOREIGN)][-1]


@given(times=st.lists(st.integers(0, 3), min_size=2, max_size=5))
def test_of_any_claims_exactly_the_lowest_may_publish(times):
    """Clocks may agree or not, and many may claim at the same time."""
    claims = claims_on(Network(), len(times))
    with pytest.MonkeyPatch.context() as patch:
        for claim, time_ns in zip(claims, times, strict=True):
            patch.setattr(action_claim.time, "time_ns", lambda time_ns=time_ns: time_ns)
            claim.make()
    goes_on = [claim for claim in claims if not looks(claim)]
    assert len(goes_on) == 1
    assert times[claims.index(goes_on[0])] == min(times)
    # When it leaves, the next one may; nobody waits for a claim that is gone.
    goes_on[0].withdraw()
    assert len([claim for claim in claims if claim is not goes_on[0] and not looks(claim)]) == 1


def test_a_reasoner_that_is_not_active_is_no_obstacle():
    first, _ = claims_on(Network(), 2)
    first.make()
    assert looks(first) == "" and first.rivals() == 0


def test_whoever_comes_to_a_claimed_topic_waits_whatever_its_clock_says(monkeypatch):
    first, second = claims_on(Network(), 2)
    first.make()
    monkeypatch.setattr(action_claim.time, "time_ns", lambda: 0)
    assert "another reasoner" in looks(second)


def test_a_publisher_that_is_no_reasoner_is_one_only_after_several_looks():
    """Names and publishers of a node that comes or goes are not seen in one moment."""
    network = Network()
    [claim] = claims_on(network, 1)
    claim.make()
    network.publishers += 1
    assert [bool(claim.obstacle()) for _ in range(4)] == [False, False, True, True]
    network.publishers -= 1
    assert claim.obstacle() == ""
    network.publishers += 1
    assert claim.obstacle() == ""


def test_a_reasoner_whose_names_come_late_is_not_taken_for_a_stranger():
    network = Network()
    first, second = claims_on(network, 2)
    first.make()
    first._node.unseen = {second._presence.topic_name}
    assert first.obstacle() == ""
    first._node.unseen = set()
    assert looks(first) == ""


def test_two_reasoners_that_start_at_the_same_time_in_one_process(graph):
    """By a transition each, in two threads, as two composed nodes under a manager."""
    actions = graph.listen(JointTrajectory, "action")
    nodes = [graph.reasoner(start=False) for _ in range(2)]
    threads = [threading.Thread(target=node.start) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    graph.wait_until(lambda: sum(node.is_active for node in nodes) == 1, "one of the two to stop")
    graph.camera()
    graph.wait_until(lambda: len(actions) > 10, "actions")
    assert sum(node.is_active for node in nodes) == 1
    stamps = [
        action.header.stamp.sec * 10**9 + action.header.stamp.nanosec
        for action in actions
        if not is_stop(action)
    ]
    assert stamps == sorted(stamps)


def test_one_that_was_overlooked_at_first_is_seen_later_and_the_later_one_stops_with_zero_motion(
    graph, monkeypatch
):
    """As where discovery takes longer than the wait: both are active, until they see each other."""
    graph.camera()
    actions = graph.listen(JointTrajectory, "action")
    with monkeypatch.context() as blind:
        blind.setattr(ActionClaim, "_others", lambda self: ([], 0))
        first, second = graph.reasoner(), graph.reasoner()
        assert first.is_active and second.is_active
        graph.wait_until(lambda: len(actions) > 5)
    graph.wait_until(lambda: "another reasoner" in second.faults.current(), "the later one to stop")
    assert first.is_active and not second.is_active
    assert "stopped with zero motion" in second.faults.current()
    count = len(actions)
    graph.wait_until(lambda: len(actions) > count + 5, "actions of the first one")
    # The first one stops, the second one may be asked again.
    graph.call(first.trigger_deactivate)
    graph.call(second.trigger_activate)
    assert second.is_active


def test_a_stranger_that_comes_later_makes_the_reasoner_stop_with_zero_motion(graph):
    graph.camera()
    actions = graph.listen(JointTrajectory, "action")
    node = graph.reasoner()
    graph.wait_until(lambda: len(actions) > 5)
    graph.tester.create_publisher(JointTrajectory, "action", 10)
    graph.wait_until(lambda: "no other publisher" in node.faults.current(), "the reasoner to stop")
    assert not node.is_active and "/tester" in node.faults.current()
    graph.wait_until(lambda: not any(actions[-1].points[0].positions[:-1]), "zero motion")


def test_processes_that_start_at_the_same_time_one_is_active(graph, run_program):
    """Each waits, imported and initialised, for a line, so that both make their node at once."""
    program = """
import sys
import rclpy
from vla_edge_ros.ros.reasoning_node import ReasoningNode
from vla_edge_ros.ros.spin import run_nodes

def create(stop):
    print("ready", flush=True)
    sys.stdin.readline()
    return [ReasoningNode()]

sys.exit(run_nodes(create))
"""
    tiny = ["-p", "model.preset:=tiny", "-p", "engine.name:=numpy", "-p", "cache.capacity_slots:=512"]
    calm = ["-p", "timing.period_ms:=100.0", "-p", "timing.deadline_ms:=100.0"]
    arguments = ["--ros-args", "-r", f"__ns:={graph.namespace}", *tiny, *calm]
    processes = [run_program(program, *arguments) for _ in range(2)]
    for process in processes:
        process.wait_for("ready")
    for process in processes:
        process.say("go")

    def outcomes() -> list[bool]:
        return sorted("another reasoner" in process.output for process in processes)

    graph.wait_until(lambda: any(outcomes()), "one of the two to give way")
    graph.wait_until(
        lambda: any("active: an action every" in process.output for process in processes), "the other one"
    )
    assert outcomes() == [False, True], [process.output for process in processes]


def test_claims_are_looked_at_in_an_executor_of_several_threads_too(graph):
    """The watch is a callback as any other; here it runs beside others."""
    executor = MultiThreadedExecutor(num_threads=3)
    node = graph.reasoner(executor=executor)
    thread = threading.Thread(target=executor.spin, daemon=True)
    thread.start()
    try:
        node.start()
        assert node.is_active
        graph.tester.create_publisher(JointTrajectory, "action", 10)
        graph.wait_until(lambda: not node.is_active, "the reasoner to stop")
    finally:
        executor.shutdown()
        thread.join(10)
