# SPDX-License-Identifier: Apache-2.0
"""The policies each topic is declared with, and middleware that cannot report mismatches."""

import pytest

pytest.importorskip("rclpy", reason="needs rclpy")

from rclpy.qos import DurabilityPolicy, ReliabilityPolicy  # noqa: E402
from std_msgs.msg import String  # noqa: E402

from vla_edge_ros.ros import qos  # noqa: E402

pytestmark = pytest.mark.ros


def test_images_are_best_effort_and_only_the_newest_waits():
    assert qos.image_qos().reliability == ReliabilityPolicy.BEST_EFFORT
    assert qos.image_qos().depth == 1


def test_actions_are_reliable_and_offer_two_periods():
    assert qos.action_qos(33.0).reliability == ReliabilityPolicy.RELIABLE
    assert qos.action_qos(33.0).deadline.nanoseconds == 66_000_000


def test_instructions_are_heard_latched_and_not():
    assert qos.instruction_qos(latched=True).durability == DurabilityPolicy.TRANSIENT_LOCAL
    assert qos.instruction_qos(latched=False).durability == DurabilityPolicy.VOLATILE


def test_a_middleware_without_mismatch_events_still_gives_a_subscription(graph, monkeypatch):
    def unsupported(self, *args, **kwargs):
        if self.incompatible_qos:
            raise qos.UnsupportedEventTypeError("not here")
        return []

    monkeypatch.setattr(qos.SubscriptionEventCallbacks, "create_event_handlers", unsupported)

    def take(message: String) -> None: ...

    subscription = graph.call(
        lambda: qos.subscribe(graph.tester, String, "text", take, qos.status_qos(), print)
    )
    assert subscription.topic_name == f"{graph.namespace}/text"
