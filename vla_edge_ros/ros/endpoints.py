# SPDX-License-Identifier: Apache-2.0
"""Who else is on a topic, by the graph: names, types, and the policies that keep a pair apart.

The middleware's events say that a pair did not match, and never that it is gone; the graph forgets.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rclpy.duration import Duration, Infinite
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, LivelinessPolicy, QoSProfile, ReliabilityPolicy
from rclpy.topic_endpoint_info import TopicEndpointInfo

from vla_edge_ros.types import NS_PER_S


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A publisher or a subscription: the node's full name, the message type, the policies."""

    node: str
    message_type: str
    qos: QoSProfile


def publishers(node: Node, topic: str) -> tuple[Endpoint, ...]:
    return _endpoints(node.get_publishers_info_by_topic(topic))


def subscribers(node: Node, topic: str) -> tuple[Endpoint, ...]:
    return _endpoints(node.get_subscriptions_info_by_topic(topic))


def names(endpoints: Iterable[Endpoint]) -> str:
    """For a sentence: each node once, with how many endpoints it has where there are more."""
    nodes = [endpoint.node for endpoint in endpoints]
    counted = ((node, nodes.count(node)) for node in dict.fromkeys(nodes))
    return ", ".join(f"{node} ({count} times)" if count > 1 else node for node, count in counted)


def mismatch(offered: QoSProfile, requested: QoSProfile) -> str:
    """The policies in which a publisher offers less than a subscription asks for; empty where they match.

    A policy that the middleware does not tell (``UNKNOWN``) is taken to match.
    """
    policies = {
        "RELIABILITY": offered.reliability == ReliabilityPolicy.BEST_EFFORT
        and requested.reliability == ReliabilityPolicy.RELIABLE,
        "DURABILITY": offered.durability == DurabilityPolicy.VOLATILE
        and requested.durability == DurabilityPolicy.TRANSIENT_LOCAL,
        "DEADLINE": _bound_ns(offered.deadline) > _bound_ns(requested.deadline),
        "LIVELINESS": (
            offered.liveliness == LivelinessPolicy.AUTOMATIC
            and requested.liveliness == LivelinessPolicy.MANUAL_BY_TOPIC
        )
        or _bound_ns(offered.liveliness_lease_duration) > _bound_ns(requested.liveliness_lease_duration),
    }
    return ", ".join(name for name, is_short in policies.items() if is_short)


def promised_rate_hz(offered: QoSProfile) -> float:
    """The least rate that a publisher promises by its deadline; 0 where it promises none."""
    deadline_ns = _bound_ns(offered.deadline)
    return 0.0 if deadline_ns >= Infinite.nanoseconds else NS_PER_S / deadline_ns


def _bound_ns(duration: Duration) -> int:
    """Zero is how ROS spells a bound that was not set."""
    return int(duration.nanoseconds) or Infinite.nanoseconds


def _endpoints(infos: Iterable[TopicEndpointInfo]) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(f"{info.node_namespace.rstrip('/')}/{info.node_name}", info.topic_type, info.qos_profile)
        for info in infos
    )
