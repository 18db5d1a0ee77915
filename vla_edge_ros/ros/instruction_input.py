# SPDX-License-Identifier: Apache-2.0
"""The instruction topic: two subscriptions, so that every kind of publisher is heard, each message once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from rclpy.qos import DurabilityPolicy
from std_msgs.msg import String

from vla_edge_ros.ros.guarded_lifecycle import GuardedLifecycleNode
from vla_edge_ros.ros.qos import instruction_qos

TOPIC = "instruction"
REMEMBERED = 16  # samples; the second copy of one comes within milliseconds


class InstructionInput:
    """Hears publishers from its creation until the node's ``unsubscribe``.

    A subscription that gets kept (transient local) messages matches no publisher that keeps none, and warns
    each of them in its log. So that one is made only once there is a publisher for it.
    """

    def __init__(self, node: GuardedLifecycleNode, take: Callable[[str], None]):
        self._node = node
        self._take = take
        self._seen: deque[tuple[int, str]] = deque(maxlen=REMEMBERED)
        qos = instruction_qos(latched=False)
        self._topic = node.listen(String, TOPIC, self.receive, qos, self._warn).topic_name
        self._has_latched = False

    def look_for_latched(self) -> None:
        """Call this now and then."""
        if self._has_latched or not self._node.count_publishers(self._topic):
            return
        publishers = self._node.get_publishers_info_by_topic(self._topic)
        if any(info.qos_profile.durability == DurabilityPolicy.TRANSIENT_LOCAL for info in publishers):
            self._has_latched = True
            # A publisher that it does not match is heard by the other one.
            qos = instruction_qos(latched=True)
            self._node.listen(String, TOPIC, self.receive, qos, lambda policy: None)

    def receive(self, message: String, info: Mapping[str, Any]) -> None:
        """Hand the text on, unless it is the other subscription's copy of a message that came already.

        Copies have one source time. Without that knowledge, an old instruction that comes late on the second
        subscription would replace a newer one for a moment.
        """
        sample = (int(info["source_timestamp"]), message.data)
        if sample in self._seen:
            return
        if sample[0]:  # 0: a middleware that does not tell
            self._seen.append(sample)
        self._take(message.data)

    def _warn(self, policy: str) -> None:
        self._node.get_logger().warning(
            f"a publisher of instructions does not match in {policy}: it must be reliable"
        )
