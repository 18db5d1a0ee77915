# SPDX-License-Identifier: Apache-2.0
"""The subscription to the camera: raw or compressed, as the topic offers it.

Names are image_transport's: a camera on ``image`` has its compressed pictures on ``image/compressed``.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.subscription import Subscription
from sensor_msgs.msg import CompressedImage, Image

from vla_edge_ros.ros.endpoints import Endpoint, publishers
from vla_edge_ros.ros.frame_input import NO_INFO, FrameInput
from vla_edge_ros.ros.qos import OnMismatch, image_qos

RAW, COMPRESSED = "sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"
CHECK_EVERY_S = 0.25

Choice = tuple[str, str]  # topic, message type
Offers = dict[str, set[str]]  # the types that are offered, by topic
Listen = Callable[[type, str, Callable[..., None], QoSProfile, OnMismatch], Subscription]


def candidates(base: str) -> tuple[str, str]:
    """Where the pictures of a camera on ``base`` can be."""
    return base, f"{base}/compressed"


def choose(transport: str, base: str, offers: Offers, current: Choice | None = None) -> Choice:
    """Topic and type to subscribe to; ``transport`` as in the parameter ``image_transport``.

    ``auto`` prefers raw images, which cost this process least, and stays with ``current`` where nothing is
    offered: a camera that starts again is the same camera.
    """
    on_base, beside = (offers.get(topic, set()) for topic in candidates(base))
    is_named = base.endswith("/compressed") or COMPRESSED in on_base
    compressed = base if is_named else candidates(base)[1], COMPRESSED
    if transport == "raw":
        return base, RAW
    if transport == "compressed":
        return compressed
    if RAW in on_base:
        return base, RAW
    if COMPRESSED in on_base or COMPRESSED in beside:
        return compressed
    return current or (compressed if is_named else (base, RAW))


class ImageTopic:
    """Subscribes ``frame_input`` to the relative topic ``image``, and anew where another type is offered.

    ``listen`` makes a subscription whose callback may raise, and reports mismatches, as the node has it;
    ``report`` is told where that fails. Used by the executor thread only.
    """

    def __init__(
        self,
        node: Node,
        frame_input: FrameInput,
        transport: str,
        listen: Listen,
        report: Callable[[str], None],
    ):
        self._node = node
        self._callbacks: dict[str, tuple[type, Callable[..., None]]] = {
            RAW: (Image, frame_input.receive),
            COMPRESSED: (CompressedImage, frame_input.receive_compressed),
        }
        self._transport = transport
        self._listen = listen
        self._report = report
        self._base = node.resolve_topic_name("image")
        self._subscription: Subscription | None = None
        self._choice: Choice | None = None
        self._checked_s = -CHECK_EVERY_S
        self.offered: tuple[tuple[str, Endpoint], ...] = ()  # topic and publisher
        self.check()

    @property
    def topic(self) -> str:
        """Full name of the topic that is, or will be, subscribed to."""
        return self._choice[0] if self._choice else self._base

    @property
    def expected_type(self) -> str:
        return self._choice[1] if self._choice else RAW

    @property
    def publishers(self) -> tuple[Endpoint, ...]:
        """Those whose images arrive here, if their policies match."""
        return tuple(end for topic, end in self.offered if (topic, end.message_type) == self._choice)

    @property
    def strangers(self) -> tuple[Endpoint, ...]:
        """Publishers on the topic whose type is another one."""
        return tuple(
            end
            for topic, end in self.offered
            if topic == self.topic and end.message_type != self.expected_type
        )

    @property
    def qos(self) -> QoSProfile:
        """As requested, overrides included."""
        return self._subscription.qos_profile if self._subscription else image_qos()

    def check(self) -> None:
        """Look at who publishes what, now and then; change over where that asks for another topic or type."""
        now_s = time.monotonic()
        if now_s - self._checked_s < CHECK_EVERY_S:
            return
        self._checked_s = now_s
        self.offered = tuple(
            (topic, end) for topic in candidates(self._base) for end in publishers(self._node, topic)
        )
        offers: Offers = {}
        for topic, end in self.offered:
            offers.setdefault(topic, set()).add(end.message_type)
        choice = choose(self._transport, self._base, offers, self._choice)
        if choice != self._choice and self._subscription is not None:
            # The executor holds on to it until this callback ends, and a participant has one type a topic.
            self._node.destroy_subscription(self._subscription)
            self._subscription = None
            return
        self._choice = choice
        if self._subscription is None:
            self._subscribe(*choice)

    def _subscribe(self, topic: str, type_name: str) -> None:
        message_type, receive = self._callbacks[type_name]
        if not hasattr(Subscription, "CallbackType"):  # ROS 2 Humble's callbacks get the message alone
            receive = functools.partial(receive, info=NO_INFO)

        def warn(policy: str) -> None:
            self._node.get_logger().warning(
                f"a publisher on {topic} offers another {policy} than is asked for: its images do not arrive"
            )

        try:
            self._subscription = self._listen(message_type, topic, receive, image_qos(), warn)
        except Exception as error:  # of the middleware: another node of this process has another type there
            self._report(f"cannot subscribe to {topic} as {type_name}: {error}")
        else:
            self._node.get_logger().info(f"images: {topic} ({type_name})")
