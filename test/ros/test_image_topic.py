# SPDX-License-Identifier: Apache-2.0
"""Raw or compressed, on image or image/compressed: what is chosen, and that its pictures become actions."""

import cv2
import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs rclpy")

import rclpy  # noqa: E402
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus  # noqa: E402
from rclpy.clock import Clock, ClockType  # noqa: E402
from rclpy.duration import Duration  # noqa: E402
from rclpy.node import Node  # noqa: E402
from rclpy.qos import QoSProfile  # noqa: E402
from rclpy.signals import SignalHandlerOptions  # noqa: E402
from rclpy.time import Time  # noqa: E402
from sensor_msgs.msg import CompressedImage, Image, PointCloud2  # noqa: E402
from trajectory_msgs.msg import JointTrajectory  # noqa: E402

from vla_edge_ros.ros.image_topic import COMPRESSED, RAW, choose  # noqa: E402

pytestmark = pytest.mark.ros

JPEG = cv2.imencode(".jpg", np.full((64, 128, 3), 90, np.uint8))[1].tobytes()
BASE, BESIDE = "/cam/image", "/cam/image/compressed"
POINTS = "sensor_msgs/msg/PointCloud2"


@pytest.mark.parametrize(
    ("transport", "base", "offers", "current", "choice"),
    [
        ("auto", BASE, {}, None, (BASE, RAW)),
        ("auto", BASE, {BASE: {RAW}, BESIDE: {COMPRESSED}}, None, (BASE, RAW)),
        ("auto", BASE, {BESIDE: {COMPRESSED}}, None, (BESIDE, COMPRESSED)),
        ("auto", BASE, {BASE: {COMPRESSED}}, None, (BASE, COMPRESSED)),
        ("auto", BASE, {BASE: {RAW, COMPRESSED}}, None, (BASE, RAW)),
        ("auto", BASE, {BASE: {POINTS}}, None, (BASE, RAW)),
        ("auto", BASE, {BASE: {POINTS}, BESIDE: {COMPRESSED}}, None, (BESIDE, COMPRESSED)),
        ("auto", BASE, {}, (BESIDE, COMPRESSED), (BESIDE, COMPRESSED)),
        ("auto", BASE, {BASE: {RAW}}, (BESIDE, COMPRESSED), (BASE, RAW)),
        ("auto", BESIDE, {}, None, (BESIDE, COMPRESSED)),
        ("auto", BESIDE, {BESIDE: {RAW}}, None, (BESIDE, RAW)),
        ("raw", BASE, {BASE: {COMPRESSED}, BESIDE: {COMPRESSED}}, None, (BASE, RAW)),
        ("compressed", BASE, {BASE: {RAW}}, None, (BESIDE, COMPRESSED)),
        ("compressed", BASE, {BASE: {COMPRESSED}}, None, (BASE, COMPRESSED)),
        ("compressed", BESIDE, {}, None, (BESIDE, COMPRESSED)),
    ],
)
def test_what_is_offered_decides(transport, base, offers, current, choice):
    assert choose(transport, base, offers, current) == choice


class OtherProcess:
    """A participant of its own, as another process would be: in one, a topic has one type.

    Its publishers are used by the graph's thread alone, and so it ends there.
    """

    def __init__(self, graph):
        self._graph = graph
        self._context = rclpy.Context()
        rclpy.init(context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        self.node = Node("driver", namespace=graph.namespace, context=self._context)

    def publish(self, make_message, topic: str) -> None:
        """What ``make_message`` makes of the time, 30 times a second until ``silence``."""
        publisher = self.offer(type(make_message(Time())), topic)

        def send(stamp) -> None:
            if publisher in self.node.publishers:
                publisher.publish(make_message(stamp))

        repeat(self._graph, send)

    def offer(self, message_type: type, topic: str):
        """A publisher that sends nothing."""
        return self.node.create_publisher(message_type, topic, 1)

    def silence(self) -> None:
        """No publisher any more."""
        publishers = list(self.node.publishers)
        self._graph.call(lambda: [self.node.destroy_publisher(publisher) for publisher in publishers])

    def close(self) -> None:
        self.silence()
        self.node.destroy_node()
        rclpy.shutdown(context=self._context)


@pytest.fixture
def make_driver(graph):
    made = []

    def make() -> OtherProcess:
        made.append(OtherProcess(graph))
        return made[-1]

    yield make
    for driver in made:
        driver.close()


@pytest.fixture
def driver(make_driver):
    return make_driver()


def repeat(graph, publish, rate_hz: float = 30.0) -> None:
    """Call ``publish`` with the time now, again and again."""
    clock = graph.tester.get_clock()
    steady = Clock(clock_type=ClockType.STEADY_TIME)
    graph.tester.create_timer(1 / rate_hz, lambda: publish(clock.now()), clock=steady)


def compressed(stamp) -> CompressedImage:
    message = CompressedImage(format="rgb8; jpeg compressed bgr8", data=JPEG)
    message.header.stamp = stamp.to_msg()
    return message


def raw(stamp) -> Image:
    message = Image(height=64, width=128, encoding="rgb8", step=384, data=bytes(64 * 384))
    message.header.stamp = stamp.to_msg()
    return message


class Watch:
    """The newest Camera status."""

    def __init__(self, graph):
        self._arrays = graph.listen(DiagnosticArray, "/diagnostics")
        self._wait = graph.wait_until

    def camera(self) -> DiagnosticStatus | None:
        for array in reversed(list(self._arrays)):
            for status in array.status:
                if status.name.endswith(": Camera"):
                    return status
        return None

    def wait(self, *words: str, level: bytes = DiagnosticStatus.WARN) -> DiagnosticStatus:
        def told():
            status = self.camera()
            return status and status.level == level and all(w in status.message for w in words) and status

        return self._wait(told, f"a camera status with {words}; the last one: {self.camera()}")


@pytest.mark.parametrize("topic", ["image", "image/compressed"])
def test_compressed_images_become_actions(graph, driver, topic):
    driver.publish(compressed, topic)
    actions, watch = graph.listen(JointTrajectory, "action"), Watch(graph)
    graph.reasoner()
    graph.wait_until(lambda: len(actions) > 3, "actions from compressed images")
    status = watch.wait("Hz", level=DiagnosticStatus.OK)
    values = {pair.key: pair.value for pair in status.values}
    assert values["topic"] == f"{graph.namespace}/{topic}" and values["type"] == COMPRESSED


def test_a_camera_that_changes_from_raw_to_compressed_on_one_topic_is_followed(graph, make_driver):
    first = make_driver()
    first.publish(raw, "image")
    actions, watch = graph.listen(JointTrajectory, "action"), Watch(graph)
    node = graph.reasoner()
    graph.wait_until(lambda: actions, "an action from a raw image")
    first.silence()
    make_driver().publish(compressed, "image")
    before = node.frames.written
    graph.wait_until(lambda: node.frames.written > before + 5, "frames from compressed images")
    watch.wait("Hz", level=DiagnosticStatus.OK)


def test_a_topic_of_another_type_is_named_with_its_publisher(graph, driver):
    driver.offer(PointCloud2, "image")
    watch = Watch(graph)
    graph.reasoner()
    watch.wait(f"{graph.namespace}/image must carry {RAW}", f"{graph.namespace}/driver publishes {POINTS}")


def test_with_raw_asked_for_a_compressed_topic_is_named(graph, driver):
    driver.offer(CompressedImage, "image")
    watch = Watch(graph)
    graph.reasoner(image_transport="raw")
    watch.wait(f"driver publishes {COMPRESSED}")


def test_a_second_camera_is_a_warning_that_names_both_until_it_is_gone(graph, driver):
    graph.camera(rate_hz=30.0)
    watch = Watch(graph)
    graph.reasoner()
    watch.wait("Hz", level=DiagnosticStatus.OK)
    driver.offer(Image, "image")
    watch.wait("2 publishers", f"{graph.namespace}/tester", f"{graph.namespace}/driver")
    driver.silence()
    watch.wait("Hz", level=DiagnosticStatus.OK)


def test_a_camera_clock_that_is_behind_is_told_by_camera_and_action_as_the_status_tells_it(graph):
    camera = graph.camera()
    camera.offset_ns = -1_500_000_000
    diagnostics = graph.listen(DiagnosticArray, "/diagnostics")
    watch = Watch(graph)
    graph.reasoner()
    watch.wait("stale", "ms old", "synchronise", level=DiagnosticStatus.ERROR)

    def action_says_so() -> bool:
        newest = [s for s in diagnostics[-1].status if s.name.endswith(": Action")][0]
        return newest.level == DiagnosticStatus.WARN and "the newest image is too old" in newest.message

    graph.wait_until(action_says_so)


def test_images_that_do_not_arrive_are_a_warning(graph):
    """Three of four are overwritten in the queue of one before they are taken: 60 Hz arrive at 15 Hz."""
    publisher = graph.tester.create_publisher(Image, "image", 1)

    def burst(stamp) -> None:
        for _ in range(4):
            publisher.publish(raw(stamp))

    repeat(graph, burst, rate_hz=15.0)
    watch = Watch(graph)
    graph.reasoner()
    status = watch.wait("images did not arrive", "rmw_")
    values = {pair.key: pair.value for pair in status.values}
    assert values["loss_known_by"] == "numbers"
    assert 60 <= float(values["lost_percent"]) <= 80


def test_a_subscriber_with_another_deadline_is_forgotten_when_it_is_gone(graph, driver):
    graph.camera()
    diagnostics = graph.listen(DiagnosticArray, "/diagnostics")
    graph.reasoner()

    def action() -> DiagnosticStatus | None:
        found = [s for array in diagnostics[-1:] for s in array.status if s.name.endswith(": Action")]
        return found[0] if found else None

    strict = QoSProfile(depth=1, deadline=Duration(nanoseconds=1_000_000))
    subscription = driver.node.create_subscription(JointTrajectory, "action", print, strict)
    graph.wait_until(lambda: action() and f"{graph.namespace}/driver does not match" in action().message)
    assert "DEADLINE" in action().message
    driver.node.destroy_subscription(subscription)
    graph.wait_until(lambda: "does not match" not in action().message, "the mismatch to be forgotten")


def test_statuses_carry_the_full_name_of_the_node(graph):
    diagnostics = graph.listen(DiagnosticArray, "/diagnostics")
    statuses = graph.listen(DiagnosticArray, "status")
    node = graph.reasoner()
    graph.camera()
    name = f"{graph.namespace}/vla_reasoner"
    assert node.get_fully_qualified_name() == name
    array = graph.wait_until(lambda: diagnostics and diagnostics[-1])
    assert all(s.name.startswith(f"{name}: ") and s.hardware_id == name for s in array.status)
    cycle = graph.wait_until(lambda: statuses and statuses[-1].status[0])
    assert (cycle.name, cycle.hardware_id) == (f"{name}: Cycle", name)
