# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.ros


@given(st.lists(st.integers(-9 * 10**8, 9 * 10**8), min_size=1))
def test_stamps_rise_wherever_the_clock_is_corrected_to(corrections):
    from vla_edge_ros.ros.camera_publisher import RisingStamps

    clock = [10**18 + correction // 2 for correction in corrections]  # never a second apart

    stamps = RisingStamps()
    given_out = [stamps.next(now) for now in clock]
    assert all(a < b for a, b in zip(given_out, given_out[1:], strict=False))
    for i, now in enumerate(clock):
        assert given_out[i] >= now
        if all(now > earlier for earlier in given_out[:i]):
            assert given_out[i] == now


def test_stamps_follow_a_clock_that_is_set_back_and_rise_from_there():
    from vla_edge_ros.ros.camera_publisher import RisingStamps

    stamps = RisingStamps()
    minute = 60 * 10**9
    assert [stamps.next(now) for now in (minute, minute, 7, 7, 9)] == [minute, minute + 1, 7, 8, 9]


def test_best_effort_and_reliable_subscribers_both_get_images(graph):
    from array import array

    from rclpy.qos import QoSProfile, ReliabilityPolicy
    from sensor_msgs.msg import Image

    from vla_edge_ros.ros.camera_publisher import CameraPublisher

    def listen(reliability):
        return graph.listen(Image, "image", QoSProfile(depth=100, reliability=reliability))

    both = [
        graph.call(lambda r=r: listen(r)) for r in (ReliabilityPolicy.RELIABLE, ReliabilityPolicy.BEST_EFFORT)
    ]
    camera = CameraPublisher(graph.tester, "wrist")
    data = array("B", range(18))

    def publish_until_both_heard():
        graph.call(lambda: camera.publish(data, 2, 3) or True)
        return all(both)

    graph.wait_until(publish_until_both_heard, "an image for each")
    for images in both:
        image = images[-1]
        assert (image.height, image.width, image.step, image.encoding) == (2, 3, 9, "rgb8")
        assert image.header.frame_id == "wrist" and list(image.data) == list(range(18))


def test_quality_of_service_can_be_overridden(graph):
    from rclpy.node import Node
    from rclpy.parameter import Parameter
    from rclpy.qos import ReliabilityPolicy

    from vla_edge_ros.ros.camera_publisher import CameraPublisher
    from vla_edge_ros.ros.qos import camera_qos

    topic = f"{graph.namespace}/image"
    name = f"qos_overrides.{topic}.publisher.reliability"
    node = Node(
        "override", namespace=graph.namespace, parameter_overrides=[Parameter(name, value="best_effort")]
    )
    try:
        CameraPublisher(node, "camera")
        (info,) = graph.wait_until(lambda: node.get_publishers_info_by_topic(topic), "the publisher")
        assert info.qos_profile.reliability == ReliabilityPolicy.BEST_EFFORT
        # The override is this topic's alone: rclpy writes it into the profile that it is given.
        assert camera_qos().reliability == ReliabilityPolicy.RELIABLE
    finally:
        node.destroy_node()
