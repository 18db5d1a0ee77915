# SPDX-License-Identifier: Apache-2.0
"""Which policies keep a pair apart, against the middleware's own judgement; and names."""

import itertools

import pytest

pytest.importorskip("rclpy", reason="needs rclpy")

from rclpy.duration import Duration  # noqa: E402
from rclpy.qos import (  # noqa: E402
    DurabilityPolicy,
    LivelinessPolicy,
    QoSCompatibility,
    QoSProfile,
    ReliabilityPolicy,
    qos_check_compatible,
)
from std_msgs.msg import String  # noqa: E402

from vla_edge_ros.ros.endpoints import (  # noqa: E402
    Endpoint,
    mismatch,
    names,
    promised_rate_hz,
    publishers,
    subscribers,
)

pytestmark = pytest.mark.ros

PROFILES = [
    QoSProfile(
        depth=1, reliability=reliability, durability=durability, deadline=deadline, liveliness=live, **lease
    )
    for reliability, durability, deadline, live, lease in itertools.product(
        (ReliabilityPolicy.RELIABLE, ReliabilityPolicy.BEST_EFFORT),
        (DurabilityPolicy.TRANSIENT_LOCAL, DurabilityPolicy.VOLATILE),
        (Duration(), Duration(nanoseconds=20_000_000), Duration(seconds=1)),
        (LivelinessPolicy.AUTOMATIC, LivelinessPolicy.MANUAL_BY_TOPIC),
        ({}, {"liveliness_lease_duration": Duration(seconds=1)}),
    )
]


def test_a_pair_mismatches_where_the_middleware_says_so():
    for offered, requested in itertools.product(PROFILES, PROFILES):
        compatibility, reason = qos_check_compatible(offered, requested)
        assert bool(mismatch(offered, requested)) == (compatibility == QoSCompatibility.ERROR), reason


def test_each_policy_is_named():
    offered = QoSProfile(
        depth=1, reliability=ReliabilityPolicy.BEST_EFFORT, durability=DurabilityPolicy.VOLATILE
    )
    requested = QoSProfile(
        depth=1,
        reliability=ReliabilityPolicy.RELIABLE,
        durability=DurabilityPolicy.TRANSIENT_LOCAL,
        deadline=Duration(seconds=1),
    )
    assert mismatch(offered, requested) == "RELIABILITY, DURABILITY, DEADLINE"


def test_a_deadline_is_a_promise_of_a_rate():
    assert promised_rate_hz(QoSProfile(depth=1, deadline=Duration(nanoseconds=20_000_000))) == 50.0
    assert promised_rate_hz(QoSProfile(depth=1)) == 0.0


def test_nodes_are_named_once_and_in_full(graph):
    assert publishers(graph.tester, f"{graph.namespace}/text") == ()
    for _ in range(2):
        graph.tester.create_publisher(String, "text", 1)
    graph.tester.create_subscription(String, "text", print, 1)
    found = graph.wait_until(
        lambda: len(ends := publishers(graph.tester, f"{graph.namespace}/text")) == 2 and ends
    )
    assert names(found) == f"{graph.namespace}/tester (2 times)"
    assert found[0].message_type == "std_msgs/msg/String"
    heard = graph.wait_until(lambda: subscribers(graph.tester, f"{graph.namespace}/text"))
    assert names(heard) == f"{graph.namespace}/tester"
    assert (
        names([Endpoint("/b", "", QoSProfile(depth=1)), Endpoint("/a", "", QoSProfile(depth=1))]) == "/b, /a"
    )
