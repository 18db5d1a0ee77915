# SPDX-License-Identifier: Apache-2.0
"""How evenly the replay camera publishes, and what a publish costs.

``python -m vla_edge_ros.bench.hops.camera [--seconds 20] [--rate 60] [--source CLIP] [--json FILE]``

Jitter: the replay node, a plain rclpy timer that publishes the same pictures, and the reasoning node run in
this process on one executor; gaps between the ends of publishes are taken in the same run. ``--no-reasoner``
leaves the reasoning node out. Cost: one publish to one matched subscriber, by size and by what ``data`` is
set from.
"""

from __future__ import annotations

import argparse
import threading
import time
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import Image

from vla_edge_ros.bench.report import command, machine, print_table, quantiles, write_json
from vla_edge_ros.console import console_program
from vla_edge_ros.ros.camera_publisher import CameraPublisher
from vla_edge_ros.ros.qos import camera_qos, image_qos
from vla_edge_ros.ros.reasoning_node import ReasoningNode
from vla_edge_ros.ros.replay_node import ReplayNode
from vla_edge_ros.ros.share import share_file
from vla_edge_ros.types import NS_PER_MS, NS_PER_S

SIZES = ((128, 64), (640, 480), (1920, 1080))
SETTLE_S = 3.0  # start-up and discovery, not measured


class TimedReplay(ReplayNode):
    """Notes when each tick has been published."""

    def __init__(self, **node_args: Any):
        super().__init__(**node_args)
        self.times_ns: list[int] = []

    def _tick(self, skipped: int) -> None:
        super()._tick(skipped)
        self.times_ns.append(time.monotonic_ns())


class PlainTimer(Node):
    """What one would write first: an rclpy timer whose callback publishes."""

    def __init__(self, rate_hz: float, width: int, height: int):
        super().__init__("plain_timer", namespace="vla")
        self.times_ns: list[int] = []
        self._publisher = self.create_publisher(Image, "image_plain", camera_qos())
        self._message = Image(height=height, width=width, step=3 * width, encoding="rgb8")
        self._message.data = array("B", bytes(height * width * 3))
        self.create_timer(1 / rate_hz, self._publish)

    def _publish(self) -> None:
        self._message.header.stamp = self.get_clock().now().to_msg()
        self._publisher.publish(self._message)
        self.times_ns.append(time.monotonic_ns())


def gap_row(name: str, times_ns: list[int], start_ns: int, end_ns: int, period_ms: float) -> dict[str, Any]:
    """Statistics of the gaps within the measured stretch; ``off``: distance of a gap from the period."""
    times = np.asarray([at for at in times_ns if start_ns <= at <= end_ns])
    gaps_ms = np.diff(times) / NS_PER_MS
    row = {"camera": name, "images": len(times), "rate_hz": len(gaps_ms) / (np.ptp(times) / NS_PER_S)}
    row |= {f"gap_ms_{key}": value for key, value in quantiles(gaps_ms).items()}
    return row | {f"off_ms_{key}": value for key, value in quantiles(abs(gaps_ms - period_ms)).items()}


def measure_jitter(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run the three nodes for ``options.seconds`` after a settling time; one row a camera."""
    parameters = ["-p", f"source:={options.source}", "-p", f"rate_hz:={options.rate}"]
    replay = TimedReplay(namespace="vla", cli_args=["--ros-args", *parameters])
    plain = PlainTimer(options.rate, *replay.config.size)
    config = options.config or str(share_file("config/tiny.yaml"))
    nodes: list[Any] = [plain, replay]
    if options.reasoner:
        nodes.append(ReasoningNode(namespace="vla", cli_args=["--ros-args", "--params-file", config]))
        nodes[-1].start()
    executor = SingleThreadedExecutor()
    for node in nodes:
        executor.add_node(node)
    replay.start()
    done = threading.Event()
    timer = threading.Timer(SETTLE_S + options.seconds, done.set)
    start_ns = time.monotonic_ns() + int(SETTLE_S * NS_PER_S)
    timer.start()
    while not done.is_set():
        executor.spin_once(timeout_sec=0.1)
    end_ns = time.monotonic_ns()
    for node in reversed(nodes[1:]):
        node.stop()
    period_ms = 1000 / options.rate
    rows = [
        gap_row("replay node", replay.times_ns, start_ns, end_ns, period_ms),
        gap_row("plain rclpy timer", plain.times_ns, start_ns, end_ns, period_ms),
    ]
    if options.reasoner:
        rows[0]["actions"] = nodes[-1].metrics.cycles
    for node in nodes:
        node.destroy_node()
    return rows


def measure_cost(node: Node, width: int, height: int, calls: int) -> list[dict[str, Any]]:
    """Time of one publish in ms: with ``CameraPublisher``, and with ``data`` set in the two usual ways."""
    camera = CameraPublisher(node, "camera")
    node.create_subscription(Image, "image", lambda _: None, image_qos())
    pixels = np.random.default_rng(0).integers(0, 255, (height, width, 3), np.uint8)
    prepared = array("B", pixels.tobytes())
    publisher = node.create_publisher(Image, "image", camera_qos())

    def assigned(value: Callable[[], Any]) -> Callable[[], None]:
        def publish() -> None:
            message = Image(height=height, width=width, step=3 * width, encoding="rgb8")
            message.data = value()
            publisher.publish(message)

        return publish

    ways = {
        "replay camera (array made ahead)": (lambda: camera.publish(prepared, height, width), calls),
        "message.data = bytes": (assigned(pixels.tobytes), calls),
        "message.data = ndarray": (assigned(pixels.ravel), max(3, calls // 40)),
    }
    rows = []
    for name, (publish, count) in ways.items():
        publish()
        samples = []
        for _ in range(count):
            began_ns = time.perf_counter_ns()
            publish()
            samples.append((time.perf_counter_ns() - began_ns) / NS_PER_MS)
        size = f"{width}x{height}"
        rows.append({"size": size, "way": name, "calls": count, **_unit(quantiles(samples))})
    return rows


def _unit(values: dict[str, float]) -> dict[str, float]:
    return {f"publish_ms_{key}": value for key, value in values.items()}


@console_program
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rate", type=float, default=60.0)
    parser.add_argument("--source", default="synthetic")
    parser.add_argument(
        "--config", default="", help="the reasoner's parameter file; default: the tiny model's"
    )
    parser.add_argument("--no-reasoner", dest="reasoner", action="store_false")
    parser.add_argument("--calls", type=int, default=200, help="publishes a size")
    parser.add_argument("--json", default="", help="also write the rows there")
    options = parser.parse_args()
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    jitter = measure_jitter(options)
    cost: list[dict[str, Any]] = []
    for width, height in SIZES:
        node = Node(f"cost_{width}")
        cost += measure_cost(node, width, height, options.calls)
        node.destroy_node()
    rclpy.try_shutdown()
    print(machine())
    for rows in (jitter, cost):
        print_table(rows)
    if options.json:
        write_json(options.json, command("hops.camera"), jitter + cost)


if __name__ == "__main__":
    main()
