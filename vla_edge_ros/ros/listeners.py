# SPDX-License-Identifier: Apache-2.0
"""Whether those who listen to a topic are there and at work, so that nothing is played to nobody."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from lifecycle_msgs.msg import State
from lifecycle_msgs.srv import GetState
from rclpy.client import Client
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.task import Future

SETTLE_S = 1.0  # a node's subscription may be discovered before its services are
ANSWER_S = 2.0  # after which a node is asked again


@dataclass
class _Listener:
    """What is known of one node; written and read by the thread that calls ``missing``."""

    first_seen_s: float = field(default_factory=time.monotonic)
    client: Client[Any, Any] | None = None
    asked_s: float = 0.0
    answer: Future[Any] | None = None
    is_active: bool = False


class Listeners:
    """The subscribers of ``publisher``, found in the graph; used by one thread, while ``node`` is spun.

    A lifecycle node subscribes before it is active, and what comes until then is lost on it. So each one is
    asked for its state.
    """

    def __init__(self, node: Node, publisher: Publisher[Any]):
        self._node = node
        self._topic = publisher.topic_name
        self._known: dict[str, _Listener] = {}

    def missing(self) -> str:
        """What still has to come, in words; empty where there are listeners and all are at work."""
        names = {
            f"{info.node_namespace.rstrip('/')}/{info.node_name}"
            for info in self._node.get_subscriptions_info_by_topic(self._topic)
        }
        if not names:
            return f"a subscriber of {self._topic}"
        for name in sorted(names):
            if not self._is_at_work(name):
                return f"{name}, which subscribes to {self._topic}, to be active"
        return ""

    def _is_at_work(self, name: str) -> bool:
        listener = self._known.setdefault(name, _Listener())
        if listener.client is None:
            service = f"{name}/get_state"
            services = self._services_of(name)
            if service not in services:
                return bool(services) or time.monotonic() - listener.first_seen_s > SETTLE_S
            listener.client = self._node.create_client(GetState, service)
        self._ask(listener, listener.client)
        return listener.is_active

    def _services_of(self, name: str) -> set[str]:
        namespace, _, base = name.rpartition("/")
        try:
            found = self._node.get_service_names_and_types_by_node(base, namespace or "/")
        except RuntimeError:  # rclpy's error for a node that is not (or no longer) in the graph
            return set()
        return {service for service, _ in found}

    def _ask(self, listener: _Listener, client: Client[Any, Any]) -> None:
        """Keep ``is_active`` up to date; never waits for the answer."""
        if listener.answer is not None and listener.answer.done():
            answer, listener.answer = listener.answer.result(), None
            listener.is_active = answer is not None and answer.current_state.id == State.PRIMARY_STATE_ACTIVE
        overdue = time.monotonic() - listener.asked_s > ANSWER_S
        if listener.answer is not None and overdue:
            client.remove_pending_request(listener.answer)
            listener.answer = None
        if listener.answer is None and not listener.is_active and client.service_is_ready():
            listener.asked_s = time.monotonic()
            listener.answer = client.call_async(GetState.Request())
