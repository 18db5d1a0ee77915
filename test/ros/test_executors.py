# SPDX-License-Identifier: Apache-2.0
"""The node in executors of others: of several threads, of another thread, with another node beside it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

pytest.importorskip("rclpy", reason="the node needs rclpy")

from rclpy.callback_groups import MutuallyExclusiveCallbackGroup  # noqa: E402
from rclpy.executors import Executor, MultiThreadedExecutor, SingleThreadedExecutor  # noqa: E402
from sensor_msgs.msg import Image  # noqa: E402
from std_msgs.msg import String  # noqa: E402
from trajectory_msgs.msg import JointTrajectory  # noqa: E402

pytestmark = pytest.mark.ros
MANY = 60  # images; enough for several threads to have had one


@contextmanager
def spun(executor: Executor) -> Iterator[None]:
    """``executor`` at work in a thread of its own, until the block ends."""
    over = threading.Event()

    def spin() -> None:
        while not over.is_set():
            executor.spin_once(timeout_sec=0.05)

    thread = threading.Thread(target=spin, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(10)
        assert not thread.is_alive()


def note_threads(monkeypatch, node) -> set[threading.Thread]:
    """The threads in which images are received from now on."""
    threads: set[threading.Thread] = set()
    write = node._input._slot.write
    slot = node._reasoner.slot
    monkeypatch.setattr(
        slot, "write", lambda pixels, stamp: threads.add(threading.current_thread()) or write(pixels, stamp)
    )
    return threads


def received_all_is_well(graph, node) -> None:
    before = node.frames.written
    graph.wait_until(lambda: node.frames.written > before + MANY, "images")
    assert node.faults.count == 0, node.faults.current()
    assert node.frames.refused == 0
    assert node._reasoner.slot.refused_writes == 0


def test_an_executor_of_several_threads(graph, monkeypatch):
    graph.camera()
    actions = graph.listen(JointTrajectory, "action")
    executor = MultiThreadedExecutor(num_threads=4)
    node = graph.reasoner(executor=executor)
    node.trigger_configure()
    threads = note_threads(monkeypatch, node)
    with spun(executor):
        node.trigger_activate()
        received_all_is_well(graph, node)
        graph.wait_until(lambda: actions, "an action")
        assert len(threads) > 1, "all images came in one thread: nothing was shown"
        node.stop()
    executor.shutdown()


def test_an_executor_that_another_thread_spins_later(graph, monkeypatch):
    graph.camera()
    actions = graph.listen(JointTrajectory, "action")
    executor = SingleThreadedExecutor()
    node = graph.reasoner(executor=executor)
    node.start()
    threads = note_threads(monkeypatch, node)
    for _ in range(2):
        with spun(executor):
            received_all_is_well(graph, node)
            count = len(actions)
            graph.wait_until(lambda count=count: len(actions) > count, "an action")
    assert len(threads) == 2
    executor.shutdown()


def test_two_nodes_in_one_process(graph):
    """Two robots' reasoners as composed nodes; each has its own slot, threads and topics."""
    graph.camera()
    executor = MultiThreadedExecutor(num_threads=3)
    other_space = f"{graph.namespace}/other"
    nodes = [
        graph.reasoner(executor=executor),
        graph.reasoner(
            executor=executor,
            node_args={
                "namespace": other_space,
                "cli_args": ["--ros-args", "-r", f"{other_space}/image:={graph.namespace}/image"],
            },
        ),
    ]
    actions = [graph.listen(JointTrajectory, "action"), graph.listen(JointTrajectory, "other/action")]
    with spun(executor):
        for node in nodes:
            node.start()
        assert all(node.is_active for node in nodes)
        for node in nodes:
            received_all_is_well(graph, node)
        graph.wait_until(lambda: all(actions), "an action of each")
        nodes[0].stop()
        received_all_is_well(graph, nodes[1])
        nodes[1].stop()
    executor.shutdown()


def test_transitions_from_another_thread_than_the_executors(graph):
    """Up and down while images, instructions and looks at the health go on in three other threads."""
    graph.camera(rate_hz=200.0)
    instructions = graph.tester.create_publisher(String, "instruction", 10)
    graph.tester.create_timer(0.01, lambda: instructions.publish(String(data="wave")))
    executor = MultiThreadedExecutor(num_threads=3)
    node = graph.reasoner(executor=executor)
    with spun(executor):
        for _ in range(3):
            node.start()
            assert node.is_active
            before = node.frames.written
            graph.wait_until(lambda before=before: node.frames.written > before, "an image")
            node.trigger_deactivate()
            node.trigger_cleanup()
            assert node.faults.count == 0, node.faults.current()
        node.stop()
    executor.shutdown()


def test_every_callback_of_a_node_is_in_a_group_that_runs_one_at_a_time(graph):
    node = graph.reasoner()
    subscriptions = {subscription.msg_type: subscription for subscription in node.subscriptions}
    assert {Image, String} <= set(subscriptions)
    groups = {entity.callback_group for entity in (*node.subscriptions, *node.timers, *node.services)}
    assert groups == {node.default_callback_group}
    assert isinstance(node.default_callback_group, MutuallyExclusiveCallbackGroup)


def test_a_node_that_is_destroyed_without_a_stop_leaves_no_thread(graph):
    """As a program does that only knows ``rclpy.spin`` and ``destroy_node``."""
    executor = SingleThreadedExecutor()
    node = graph.reasoner(executor=executor)
    node.start()
    threads = list(node._reasoner._threads)
    assert all(thread.is_alive() for thread in threads)
    graph._nodes.remove(node)
    graph._reasoners.remove(node)
    node.destroy_node()
    assert not any(thread.is_alive() for thread in threads)
    executor.shutdown()
