# SPDX-License-Identifier: Apache-2.0
"""Camera and reasoner in one process, with a live line a second and a summary: ``demo --source clip.mp4``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.parameter import Parameter

from vla_edge_ros.console import console_program
from vla_edge_ros.errors import VlaEdgeError
from vla_edge_ros.ros.reasoning_node import ReasoningNode
from vla_edge_ros.ros.replay_node import ReplayNode
from vla_edge_ros.ros.run_report import live_line, summary
from vla_edge_ros.ros.share import share_file
from vla_edge_ros.ros.spin import Runnable, StopRequest, run_nodes

NAMESPACE = "vla"


class RunReporter(Node):
    """Prints what the two others do, and ends the run after ``duration_s`` (0: never)."""

    def __init__(self, reasoner: ReasoningNode, camera: ReplayNode, duration_s: float, stop: StopRequest):
        super().__init__("demo", namespace=NAMESPACE)
        self._reasoner = reasoner
        self._camera = camera
        self._duration_s = duration_s
        self._stop = stop
        self._second = 0
        self._before = reasoner.metrics
        self._published_before = 0

    def start(self) -> None:
        """Raises ``VlaEdgeError`` where the reasoner did not come up: a demo without it shows nothing."""
        if not self._reasoner.is_active:
            raise VlaEdgeError("the reasoner did not start; the reason is in the log above")
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(1.0, self._report, clock=steady)
        if self._duration_s:
            self.create_timer(self._duration_s, self._stop.request, clock=steady)

    def stop(self) -> None:
        """Nothing to stop; timers go with the node."""

    def print_summary(self) -> None:
        print(summary(self._reasoner.metrics, self._reasoner.frames, self._camera.published))

    def _report(self) -> None:
        self._second += 1
        now, published = self._reasoner.metrics, self._camera.published
        try:
            print(live_line(self._second, published - self._published_before, self._before, now), flush=True)
        except OSError:  # who read the lines has left: end in order, `console_program` sees to the rest
            self._stop.request()
        self._before, self._published_before = now, published


@console_program
def main(args: Sequence[str] | None = None) -> int:
    options, ros_args = _parse(sys.argv[1:] if args is None else args)
    reporters: list[RunReporter] = []

    def create(stop: StopRequest) -> Sequence[Runnable]:
        source = [Parameter("source", value=options.source), Parameter("rate_hz", value=options.rate)]
        camera = ReplayNode(namespace=NAMESPACE, parameter_overrides=source, on_finished=stop.request)
        reasoner = ReasoningNode(namespace=NAMESPACE)
        reporters.append(RunReporter(reasoner, camera, options.duration, stop))
        return [reasoner, camera, *reporters]

    try:
        config = options.config or share_file("config/tiny.yaml")
    except VlaEdgeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    exit_code = run_nodes(create, ["--ros-args", "--params-file", str(config), *ros_args])
    if reporters and not exit_code:
        reporters[0].print_summary()
    return exit_code


def _parse(args: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Our own options, and what stands behind ``--ros-args``."""
    parser = argparse.ArgumentParser(prog="demo", description="Camera footage in, robot actions out.")
    parser.add_argument("--source", default="synthetic", help="video, image folder, rosbag2, or 'synthetic'")
    parser.add_argument("--duration", type=float, default=0.0, help="seconds to run; 0: until Ctrl-C")
    parser.add_argument("--rate", type=float, default=60.0, help="camera images a second")
    parser.add_argument("--config", type=Path, help="ROS parameter file; default: the tiny model's")
    args = list(args)
    split = args.index("--ros-args") if "--ros-args" in args else len(args)
    options = parser.parse_args(args[:split])
    if options.config and not options.config.is_file():
        parser.error(f"--config must name a parameter file, got {options.config}")
    if not 0 <= options.duration < float("inf"):
        parser.error(f"--duration must be at least 0 seconds, got {options.duration}")
    return options, args[split + 1 :]


if __name__ == "__main__":
    sys.exit(main())
