# SPDX-License-Identifier: Apache-2.0
"""Quality of service of every topic, and publishers and subscriptions that report mismatches.

A pair whose policies do not match exchanges nothing, silently; the middleware's events are what tells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rclpy.duration import Duration
from rclpy.lifecycle import LifecycleNode, LifecyclePublisher
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import (
    DurabilityPolicy,
    HistoryPolicy,
    QoSProfile,
    ReliabilityPolicy,
    qos_policy_name_from_kind,
)
from rclpy.qos_overriding_options import QoSOverridingOptions
from rclpy.subscription import Subscription

try:
    from rclpy.event_handler import (
        PublisherEventCallbacks,
        SubscriptionEventCallbacks,
        UnsupportedEventTypeError,
    )
    from rclpy.exceptions import InvalidHandle
except ImportError:  # ROS 2 Humble, which is not what types are checked against
    from rclpy.handle import InvalidHandle  # type: ignore[import-not-found, no-redef]
    from rclpy.qos_event import PublisherEventCallbacks, SubscriptionEventCallbacks, UnsupportedEventTypeError

_EndPoint = TypeVar("_EndPoint", bound="Subscription | LifecyclePublisher[Any]")
OnMismatch = Callable[[str], None]

# Functions, not constants: rclpy writes QoS overrides into the profile that it is given.


def image_qos() -> QoSProfile:
    """Best effort matches every camera; depth 1 because an older frame than the newest is of no use."""
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=1,
        reliability=ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.VOLATILE,
    )


def camera_qos() -> QoSProfile:
    """Reliable serves best-effort and reliable subscribers alike, and large images go out in fragments, of
    which best effort loses most. A few deep, so that a slow subscriber cannot hold the camera up.
    """
    return QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=5, reliability=ReliabilityPolicy.RELIABLE)


def action_qos(period_ms: float) -> QoSProfile:
    """Reliable, and the promise of a message every second period at the latest, to who asks for a deadline.

    Two periods, because consecutive messages may lie anywhere in their periods. A few deep, so that a short
    stall of the network loses nothing; a controller that wants the newest only subscribes with depth 1.
    """
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=10,
        reliability=ReliabilityPolicy.RELIABLE,
        durability=DurabilityPolicy.VOLATILE,
        deadline=Duration(nanoseconds=round(2e6 * period_ms)),
    )


def status_qos() -> QoSProfile:
    """For status and diagnostics: reliable, a few deep."""
    return QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=10, reliability=ReliabilityPolicy.RELIABLE)


def monitor_qos() -> QoSProfile:
    """Best effort, so that a slow terminal or network of who watches costs a robot no second sending."""
    return QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=50, reliability=ReliabilityPolicy.BEST_EFFORT)


def instruction_qos(*, latched: bool) -> QoSProfile:
    """``latched`` brings the last instruction to a node that starts after it was given, from publishers that
    keep it (transient local). Such a subscription matches no other publisher, as that of ``ros2 topic pub``
    by default; the other one matches all, and gets what is published from then on.
    """
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=1,
        reliability=ReliabilityPolicy.RELIABLE,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
    )


def subscribe(
    node: Node,
    message_type: type,
    topic: str,
    callback: Callable[..., None],
    qos: QoSProfile,
    on_mismatch: OnMismatch,
) -> Subscription:
    """A subscription with overridable QoS. ``on_mismatch`` gets the policy that keeps a publisher away.

    In the node's own callback group, which runs one callback at a time: an executor of several threads must
    not write two images at once.
    """

    def create(**events: Any) -> Subscription:
        return node.create_subscription(
            message_type,
            topic,
            callback,
            qos,
            event_callbacks=SubscriptionEventCallbacks(**events),
            qos_overriding_options=QoSOverridingOptions.with_default_policies(),
        )

    return _created(create, on_mismatch)


def _created(create: Callable[..., _EndPoint], on_mismatch: OnMismatch) -> _EndPoint:
    """With the event of policies that do not match, where the middleware has one."""
    try:
        made = create(incompatible_qos=lambda event: on_mismatch(_policy(event)))
    except UnsupportedEventTypeError:
        return create(use_default_callbacks=False)
    _let_destroyed_handlers_pass(made.event_handlers)
    return made


def lifecycle_publisher(
    node: LifecycleNode, message_type: type, topic: str, qos: QoSProfile, on_mismatch: OnMismatch
) -> LifecyclePublisher[Any]:
    """A publisher that sends while the node is active. ``on_mismatch`` as in ``subscribe``."""

    def create(**events: Any) -> LifecyclePublisher[Any]:
        return node.create_lifecycle_publisher(
            message_type, topic, qos, event_callbacks=PublisherEventCallbacks(**events)
        )

    return _created(create, on_mismatch)


def silent_publisher(node: Node, message_type: type, topic: str) -> Publisher:
    """One that is there to be seen: no message, no events."""
    return node.create_publisher(
        message_type, topic, 1, event_callbacks=PublisherEventCallbacks(use_default_callbacks=False)
    )


def _let_destroyed_handlers_pass(handlers: Sequence[Any]) -> None:
    """Entities may be destroyed by one thread while an executor in another one prepares to wait for them.

    rclpy lets destroyed subscriptions, services and timers pass then, but a handler of events raises out of
    the spin: the executor has it in a list, which is older than its end.
    """

    def tolerant(handler: Any, add: Callable[[Any], None]) -> Callable[[Any], None]:
        def add_to_wait_set(wait_set: Any) -> None:
            try:
                add(wait_set)
            except InvalidHandle:
                handler._event_index = None  # is not ready, whatever this wait set says

        return add_to_wait_set

    for handler in handlers:
        handler.add_to_wait_set = tolerant(handler, handler.add_to_wait_set)


def _policy(event: Any) -> str:
    return qos_policy_name_from_kind(event.last_policy_kind)
