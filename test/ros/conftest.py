# SPDX-License-Identifier: Apache-2.0
"""A ROS graph inside the test process: nodes that spin in a thread, a camera, and a listener."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.engines.base import Decoded, Vision
from vla_edge_ros.engines.numpy_engine import NumpyEngine
from vla_edge_ros.errors import EngineError
from vla_edge_ros.model.weights import open_weights

REPOSITORY = Path(__file__).resolve().parents[2]
WAIT_S = 90.0
START_S = 60  # a busy machine takes long to import
# Slow enough that a busy machine keeps up: what is tested here are rules, not speed.
CALM = {
    "model.preset": "tiny",
    "engine.name": "numpy",
    "cache.capacity_slots": 512,
    "timing.period_ms": 100.0,
    "timing.deadline_ms": 100.0,
    "timing.max_frame_age_ms": 1000.0,
    "discovery_ms": 0.0,  # within one process there is nothing to wait for
}


def wait_for(condition: Callable[[], object], what: str = "the condition") -> object:
    """Poll until ``condition`` gives something true, and return it; the test fails after ``WAIT_S``."""
    end_s = time.monotonic() + WAIT_S
    while not (result := condition()):
        assert time.monotonic() < end_s, f"waited {WAIT_S} s in vain for {what}"
        threading.Event().wait(0.005)
    return result


class Process:
    """A Python program of its own, given as text; its lines of output as they come."""

    def __init__(self, program: str, *args: str):
        self.lines: list[str] = []
        self._popen = subprocess.Popen(
            [sys.executable, "-u", "-c", program, *args],
            cwd=REPOSITORY,
            env={**os.environ, "RCUTILS_COLORIZED_OUTPUT": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._popen.stdout:
            self.lines.append(line)

    @property
    def output(self) -> str:
        return "".join(self.lines)

    def is_over(self) -> bool:
        return self._popen.poll() is not None

    def wait_for(self, words: str) -> None:
        """Until the program has said ``words``; the test fails where it ends without."""
        end_s = time.monotonic() + START_S
        while words not in self.output:
            assert not self.is_over() or words in self.output, self.output
            assert time.monotonic() < end_s, f"waited in vain for {words!r} in: {self.output}"
            threading.Event().wait(0.01)

    def say(self, line: str) -> None:
        """A line to its standard input."""
        self._popen.stdin.write(f"{line}\n")
        self._popen.stdin.flush()

    def signal(self, number: int) -> None:
        self._popen.send_signal(number)

    def wait(self, timeout_s: float = START_S) -> int:
        code = self._popen.wait(timeout_s)
        self._reader.join(timeout_s)
        return code

    def kill(self) -> None:
        self._popen.kill()
        self._popen.wait()


class FailingEngine:
    """The tiny NumPy engine, which raises ``error`` from where it is told to."""

    def __init__(self, config: VlaConfig):
        self._engine = NumpyEngine(config, open_weights(config.model))
        self.name = "failing"
        self.fail_at = ""
        self.error: Exception = EngineError("told to fail")
        self.closed = 0

    def _maybe_fail(self, where: str) -> None:
        if self.fail_at == where:
            raise type(self.error)(*self.error.args)  # a new one: an old one's traceback would hold frames

    def load(self) -> None:
        self._maybe_fail("load")
        self._engine.load()

    def write_prompt(self, token_ids, pages) -> None:
        self._engine.write_prompt(token_ids, pages)

    def embed_frame(self, pixels) -> Vision:
        return self._engine.embed_frame(pixels)

    def prefill(self, view, draft=(), suffix=()) -> float:
        self._maybe_fail("prefill")
        return self._engine.prefill(view, draft, suffix)

    def decode(self, view, count, should_stop) -> Decoded:
        return self._engine.decode(view, count, should_stop)

    def memory(self):
        return self._engine.memory()

    def close(self) -> None:
        self.closed += 1
        self._engine.close()


class Graph:
    """Nodes of one test, in a namespace of their own, spun by one thread; everything ends with the test."""

    numbers = itertools.count()
    wait_until = staticmethod(wait_for)

    def __init__(self) -> None:
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.node import Node

        self.namespace = f"/test{next(self.numbers)}"
        self._executor = SingleThreadedExecutor()
        self._nodes = []
        self._reasoners = []
        self.tester = Node("tester", namespace=self.namespace)
        self._add(self.tester)
        self._tasks: list[Callable[[], None]] = []
        self._tester_tasks = self.tester.create_timer(0.01, self._run_tasks)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def _spin(self) -> None:
        while not self._ended.is_set():
            self._executor.spin_once(timeout_sec=0.05)

    def _run_tasks(self) -> None:
        while self._tasks:
            self._tasks.pop(0)()

    def call(self, task: Callable[[], object]) -> object:
        """Run ``task`` in the executor's thread, as a callback; return what it returns."""
        done, result = threading.Event(), []

        def run() -> None:
            try:
                result.append(task())
            finally:
                done.set()

        self._tasks.append(run)
        assert done.wait(WAIT_S), "the executor did not come round"
        assert result, "the task raised"
        return result[0]

    def _add(self, node, executor=None) -> None:
        self._nodes.append(node)
        (executor or self._executor).add_node(node)

    def reasoner(self, *, make_engine=None, start=True, executor=None, node_args=None, **parameters):
        """A reasoning node with the tiny model, and ``parameters`` with ``__`` for the dot.

        Spun with the others, or by ``executor``, and then not started.
        """
        from rclpy.parameter import Parameter

        from vla_edge_ros.ros.reasoning_node import ReasoningNode

        values = {**CALM, **{name.replace("__", "."): value for name, value in parameters.items()}}
        overrides = [Parameter(name, value=value) for name, value in values.items()]
        extra = {"make_engine": make_engine} if make_engine else {}
        extra.update(node_args or {})
        node = ReasoningNode(**{"namespace": self.namespace, "parameter_overrides": overrides, **extra})
        self._reasoners.append(node)
        self._add(node, executor)
        if start and executor is None:
            self.call(node.start)
        return node

    def listen(self, message_type, topic: str, qos=10) -> list:
        """Messages of ``topic``, relative to the namespace unless it begins with a slash, as they come."""
        messages: list = []
        self.tester.create_subscription(message_type, topic, messages.append, qos)
        return messages

    def camera(self, rate_hz: float = 60.0, **fields) -> Camera:
        return Camera(self, rate_hz, fields)

    def close(self) -> None:
        self._ended.set()
        self._thread.join(WAIT_S)
        for node in self._reasoners:
            node.stop()
        for node in self._nodes:
            node.destroy_node()


class Camera:
    """Publishes ``message`` at a rate, stamped now; tests change the message while it runs."""

    def __init__(self, graph: Graph, rate_hz: float, fields: dict):
        from rclpy.clock import Clock, ClockType
        from sensor_msgs.msg import Image

        self.message = Image(height=64, width=128, encoding="rgb8", step=384, data=bytes(64 * 384))
        for name, value in fields.items():
            setattr(self.message, name, value)
        self.is_on = True
        self.offset_ns = 0
        self.stamps: list[int] = []
        self._node = graph.tester
        self._publisher = graph.tester.create_publisher(Image, "image", 1)
        self._timer = graph.tester.create_timer(
            1 / rate_hz, self._publish, clock=Clock(clock_type=ClockType.STEADY_TIME)
        )

    def _publish(self) -> None:
        if not self.is_on:
            return
        stamp_ns = self._node.get_clock().now().nanoseconds + self.offset_ns
        self.message.header.stamp.sec, self.message.header.stamp.nanosec = divmod(stamp_ns, 10**9)
        self.stamps.append(stamp_ns)
        self._publisher.publish(self.message)


@pytest.fixture
def run_program() -> Iterator[Callable[..., Process]]:
    """Starts a ``Process``; it ends with the test."""
    processes = []

    def run(program: str, *args: str) -> Process:
        processes.append(Process(program, *args))
        return processes[-1]

    yield run
    for process in processes:
        process.kill()


@pytest.fixture
def start(run_program) -> Callable[..., Process]:
    """Starts an executable of this package, by the name of its module."""

    def run(module: str, *args: str) -> Process:
        main = f"import sys; from vla_edge_ros.ros.{module} import main; sys.exit(main())"
        return run_program(main, *args)

    return run


@pytest.fixture
def failing_engines():
    """A ``make_engine`` that appends what it makes to its list ``made``."""

    def make(config: VlaConfig) -> FailingEngine:
        make.made.append(FailingEngine(config))
        return make.made[-1]

    make.made = []
    return make


@pytest.fixture
def graph(ros_context) -> Iterator[Graph]:
    made = Graph()
    yield made
    made.close()
