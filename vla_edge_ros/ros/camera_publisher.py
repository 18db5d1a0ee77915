# SPDX-License-Identifier: Apache-2.0
"""Publishing pictures as ``sensor_msgs/Image``, cheaply, with stamps that always rise."""

from __future__ import annotations

from array import array

from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.qos_overriding_options import QoSOverridingOptions
from sensor_msgs.msg import Image

from vla_edge_ros.ros.qos import camera_qos
from vla_edge_ros.types import NS_PER_S

DELIVERY_TIMEOUT = Duration(seconds=1.0)


# A clock that is corrected steps back by less; one that is set back (a bag starts over) by more.
SET_BACK_NS = NS_PER_S


class RisingStamps:
    """ROS time as stamps that rise even where the clock stands still or is corrected.

    Where it is set back by more than a second the stamps go back with it, once: until the clock came round,
    they would otherwise all lie in the future.
    """

    def __init__(self) -> None:
        self._last_ns = 0

    def next(self, now_ns: int) -> int:
        set_back = self._last_ns - now_ns > SET_BACK_NS
        self._last_ns = now_ns if set_back else max(now_ns, self._last_ns + 1)
        return self._last_ns


class CameraPublisher:
    """Publishes on the relative topic ``image``; used by one thread."""

    def __init__(self, node: Node, frame_id: str):
        self._clock = node.get_clock()
        self._stamps = RisingStamps()
        # rclpy serialises during publish, so one message serves for all.
        self._message = Image(encoding="rgb8", is_bigendian=0)
        self._message.header.frame_id = frame_id
        self.publisher = node.create_publisher(
            Image, "image", camera_qos(), qos_overriding_options=QoSOverridingOptions.with_default_policies()
        )

    def publish(self, data: array[int], height: int, width: int) -> None:
        """Send RGB bytes ``data``, ``height * width * 3`` of them, stamped now.

        ``data`` is an ``array``: rclpy takes any other sequence an element at a time, 50 ms for 640x480.
        """
        stamp_ns = self._stamps.next(self._clock.now().nanoseconds)
        message = self._message
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp_ns, NS_PER_S)
        message.height, message.width, message.step = height, width, width * 3
        message.data = data
        self.publisher.publish(message)

    def wait_delivered(self) -> None:
        """Wait until reliable subscribers have the last image, for a moment at most."""
        self.publisher.wait_for_all_acked(DELIVERY_TIMEOUT)
