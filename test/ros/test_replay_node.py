# SPDX-License-Identifier: Apache-2.0
"""The replay node in a live graph: rate, stamps, pixels, parameters, waits."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from image_files import write_pictures

from vla_edge_ros.errors import ConfigError, SourceError

pytestmark = pytest.mark.ros

RELIABLE_DEEP = 5000


@pytest.fixture
def make_camera(graph):
    """A started replay node in the test's graph, with a listener's list of its images."""
    from rclpy.parameter import Parameter
    from rclpy.qos import QoSProfile
    from sensor_msgs.msg import Image

    from vla_edge_ros.ros.replay_node import ReplayNode

    nodes = []

    def make(*, start: bool = True, on_finished=None, **parameters):
        overrides = [Parameter(name, value=value) for name, value in parameters.items()]
        node = ReplayNode(namespace=graph.namespace, parameter_overrides=overrides, on_finished=on_finished)
        nodes.append(node)
        images = graph.call(lambda: graph.listen(Image, "image", QoSProfile(depth=RELIABLE_DEEP)))
        # Nothing may be sent before the listener is matched, or counts would depend on discovery.
        graph.wait_until(lambda: node.count_subscribers(f"{graph.namespace}/image"), "the listener")
        graph.wait_until(lambda: graph.tester.count_publishers(f"{graph.namespace}/image"), "the camera")
        if start:
            node.start()
        return node, images

    yield make
    for node in nodes:
        node.stop()
        node.destroy_node()


def stamp_ns(image) -> int:
    return image.header.stamp.sec * 10**9 + image.header.stamp.nanosec


def test_publishes_at_its_rate_with_complete_messages(make_camera, graph):
    node, images = make_camera(rate_hz=60.0)
    graph.wait_until(lambda: len(images) >= 150, "150 images")
    node.stop()
    # By stamps, which are taken at the tick: a busy machine may deliver late without being late.
    span_s = (stamp_ns(images[149]) - stamp_ns(images[0])) / 1e9
    assert 149 / span_s == pytest.approx(60, abs=1) or node.skipped > 0
    image = images[0]
    assert (image.width, image.height, image.step, image.encoding) == (128, 64, 384, "rgb8")
    assert len(image.data) == 64 * 384 and image.header.frame_id == "camera" and image.is_bigendian == 0


def test_ends_without_loop_after_every_frame_in_order(make_camera, graph, tmp_path):
    finished = threading.Event()
    source = str(write_pictures(tmp_path / "pictures", 20))
    node, images = make_camera(
        source=source, loop=False, rate_hz=200.0, width=0, height=0, on_finished=finished.set
    )
    assert finished.wait(10) and node.finished.is_set() and node.error is None
    assert node.published == 20
    graph.wait_until(lambda: len(images) == 20, "20 images")
    for i, image in enumerate(images):
        assert (image.width, image.height, image.step) == (6, 4, 18)
        assert bytes(image.data) == bytes([i, 2 * i, 255 - i]) * 24


def test_stamps_rise_across_the_loop_seam(make_camera, graph, tmp_path):
    source = str(write_pictures(tmp_path / "pictures", 7))
    node, images = make_camera(source=source, rate_hz=300.0)
    graph.wait_until(lambda: len(images) >= 50, "50 images")
    stamps = [stamp_ns(image) for image in images]
    assert all(a < b for a, b in zip(stamps, stamps[1:], strict=False))
    order = [image.data[0] for image in images]
    assert all((b - a) % 7 == 1 for a, b in zip(order, order[1:], strict=False))  # none left out, none twice
    assert abs(stamps[-1] - time.time_ns()) < 60 * 10**9  # ROS time, not media time


def test_media_time_repeats_frames_of_a_slower_clip(make_camera, graph, data_dir):
    clip = data_dir / "clips" / "bridge_close_cabinet.mp4"
    finished = threading.Event()
    node, images = make_camera(
        source=str(clip), timing="media_time", loop=False, rate_hz=60.0, on_finished=finished.set
    )
    assert finished.wait(30)
    assert node.published + node.skipped == 36 * 4
    graph.wait_until(lambda: len(images) == node.published, "all images")
    distinct = [a.data != b.data for a, b in zip(images, images[1:], strict=False)]
    assert 36 * 0.7 < 1 + sum(distinct) <= 36


def test_pixels_on_the_wire_are_the_clips(make_camera, graph, data_dir):
    from vla_edge_ros.imaging import resize_rgb
    from vla_edge_ros.replay.video import VideoSource

    path = data_dir / "clips" / "bridge_close_cabinet.mp4"
    node, images = make_camera(source=str(path), loop=False, rate_hz=60.0, width=64, height=32)
    graph.wait_until(lambda: len(images) == 36, "36 images")
    for image, frame in zip(images, VideoSource(path), strict=True):
        pixels = np.frombuffer(image.data, np.uint8).reshape(32, 64, 3)
        assert np.array_equal(pixels, resize_rgb(frame.pixels, 64, 32))


@pytest.mark.parametrize(
    ("parameters", "error", "says"),
    [
        ({"rate_hz": 0.0}, ConfigError, "rate_hz must be at least 0.1"),
        ({"rate_hz": float("nan")}, ConfigError, "rate_hz must be finite"),
        ({"rate_hz": "sixty"}, ConfigError, "rate_hz must be .*, got 'sixty'"),
        ({"source": 0}, ConfigError, "source must be .*, got 0"),
        ({"loop": "yes"}, ConfigError, "loop must be .*bool, got 'yes'"),
        ({"timing": "fast"}, ConfigError, "timing must be one of"),
        ({"width": -5}, ConfigError, "width must be at least -1"),
        ({"source": "no/such.mp4"}, SourceError, "no/such.mp4 does not exist"),
    ],
)
def test_a_parameter_that_cannot_work_is_refused_in_one_line(ros_context, parameters, error, says):
    from rclpy.parameter import Parameter

    from vla_edge_ros.ros.replay_node import ReplayNode

    with pytest.raises(error, match=f"^{says}" if error is ConfigError else says) as raised:
        ReplayNode(parameter_overrides=[Parameter(name, value=value) for name, value in parameters.items()])
    assert "\n" not in str(raised.value)


def set_parameter(node, name, value):
    from rclpy.parameter import Parameter

    return node.set_parameters([Parameter(name, value=value)])[0]


def test_a_parameter_that_is_set_later_is_refused_by_name(make_camera):
    node, _ = make_camera(start=False)
    for name, value in {"rate_hz": 30.0, "loop": "yes", "source": "other.mp4", "width": 64}.items():
        result = set_parameter(node, name, value)
        assert not result.successful and result.reason.startswith(f"{name} ")
    assert "start it anew with 30.0" in set_parameter(node, "rate_hz", 30.0).reason
    assert node.get_parameter("rate_hz").value == 60.0


def test_a_parameter_may_be_set_to_what_it_is_and_others_may_change(make_camera):
    node, _ = make_camera(start=False, rate_hz=30)
    assert set_parameter(node, "rate_hz", 30.0).successful
    assert set_parameter(node, "use_sim_time", True).successful


@pytest.fixture
def make_lonely_camera(graph):
    """A replay node that plays three pictures once, spun with the graph, and nobody listens yet."""
    from rclpy.parameter import Parameter

    from vla_edge_ros.ros.replay_node import ReplayNode

    made = []

    def make(source, **more):
        values = {"source": str(source), "loop": False, "rate_hz": 50.0}
        overrides = [Parameter(name, value=value) for name, value in values.items()]
        node = ReplayNode(namespace=graph.namespace, parameter_overrides=overrides, **more)
        made.append(node)
        graph._executor.add_node(node)
        node.start()
        return node

    yield make
    for node in made:
        node.stop()
        graph._executor.remove_node(node)
        node.destroy_node()


def test_a_clip_without_loop_waits_for_a_lifecycle_subscriber_until_it_is_active(
    make_lonely_camera, graph, tmp_path
):
    from rclpy.lifecycle import LifecycleNode
    from rclpy.qos import QoSProfile
    from sensor_msgs.msg import Image

    node = make_lonely_camera(write_pictures(tmp_path / "pictures", 3))
    graph.wait_until(lambda: "a subscriber of" in node._listeners.missing(), "the camera to wait")
    watcher = LifecycleNode("watcher", namespace=graph.namespace)
    images = []
    graph._add(watcher)
    watcher.create_subscription(Image, "image", images.append, QoSProfile(depth=100))
    listeners = node._listeners._known
    name = f"{graph.namespace}/watcher"
    graph.wait_until(lambda: name in listeners and listeners[name].asked_s, "the watcher to be asked")
    graph.call(watcher.trigger_configure)
    assert not images and not node.finished.is_set()
    graph.call(watcher.trigger_activate)
    graph.wait_until(lambda: len(images) == 3, "all three pictures")
    assert [image.data[0] for image in images] == [0, 1, 2]


def test_a_wait_for_a_subscriber_ends_where_it_is_bounded(make_lonely_camera, graph, tmp_path):
    node = make_lonely_camera(write_pictures(tmp_path / "pictures", 3), longest_wait_s=0.3)
    graph.wait_until(node.finished.is_set, "the end of the clip")
    assert node.published + node.skipped >= 3 and node.error is None


def test_a_whole_number_is_taken_as_a_rate(make_camera):
    node, _ = make_camera(start=False, rate_hz=30)
    assert node.config.rate_hz == 30.0


def test_a_source_that_fails_while_it_plays_ends_with_an_error(make_camera, tmp_path):
    source = write_pictures(tmp_path / "pictures", 3)
    finished = threading.Event()
    node, _ = make_camera(source=str(source), start=False, rate_hz=100.0, on_finished=finished.set)
    for picture in source.iterdir():
        picture.write_bytes(b"gone")
    node.start()
    assert finished.wait(10)
    assert "none of its 3 image files" in node.error


def test_a_decoder_that_is_too_slow_leaves_ticks_out_and_counts_them(make_camera, graph, monkeypatch):
    from vla_edge_ros.replay.synthetic import SyntheticScene

    picture = SyntheticScene.picture

    def slow(scene, index):
        threading.Event().wait(0.05)
        return picture(scene, index)

    monkeypatch.setattr(SyntheticScene, "picture", slow)
    node, images = make_camera(rate_hz=100.0)
    graph.wait_until(lambda: len(images) >= 12, "12 images")
    assert node.starved > 0 and node.error is None


def test_stop_in_the_middle_of_a_slow_period_is_quick_and_may_be_repeated(make_camera):
    node, _ = make_camera(rate_hz=0.1)
    began_s = time.monotonic()
    node.stop()
    node.stop()
    assert time.monotonic() - began_s < 5  # the period is 10 s


def test_a_node_that_never_started_can_be_stopped(make_camera):
    node, _ = make_camera(start=False)
    node.stop()
    assert node.published == 0


def test_python_warnings_of_the_source_reach_the_nodes_log_until_it_stops(make_camera, monkeypatch):
    from vla_edge_ros.replay.base import LOGGER

    node, _ = make_camera(start=False)
    said = []
    monkeypatch.setattr(node._log_bridge, "emit", lambda record: said.append(record.getMessage()))
    LOGGER.warning("half %s", "a clip")
    node.stop()
    LOGGER.warning("not heard")
    assert said == ["half a clip"]
