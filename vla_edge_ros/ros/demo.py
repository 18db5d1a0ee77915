# SPDX-License-Identifier: Apache-2.0
"""Camera and reasoner in one process, with a live line a second and a summary: ``demo --source clip.mp4``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.parameter import Parameter

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.console import console_program
from vla_edge_ros.errors import VlaEdgeError
from vla_edge_ros.replay.config import ReplayConfig
from vla_edge_ros.ros.command_line import CommandLine
from vla_edge_ros.ros.parameter_file import check_keys
from vla_edge_ros.ros.parameters import NodeConfig
from vla_edge_ros.ros.reasoning_node import ReasoningNode
from vla_edge_ros.ros.replay_node import ReplayNode
from vla_edge_ros.ros.run_report import live_line, summary
from vla_edge_ros.ros.share import share_file
from vla_edge_ros.ros.spin import Runnable, StopRequest, run_nodes

NAMESPACE = "vla"
LONGEST_WAIT_S = 10.0  # the reasoner is active when the camera starts; another listener shall not hold it up


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
    command_line = CommandLine(["--ros-args", *ros_args], [ReplayConfig, NodeConfig, VlaConfig])

    def create(stop: StopRequest) -> Sequence[Runnable]:
        command_line.refuse_unknown()
        options_given = {"source": options.source, "rate_hz": options.rate_hz}
        camera = ReplayNode(
            namespace=NAMESPACE,
            parameter_overrides=_overrides(command_line.texts(ReplayConfig), options_given),
            on_finished=stop.request,
            longest_wait_s=LONGEST_WAIT_S,
        )
        reasoner = ReasoningNode(
            namespace=NAMESPACE, parameter_overrides=_overrides(command_line.texts(VlaConfig))
        )
        reporters.append(RunReporter(reasoner, camera, options.duration, stop))
        names = [node.get_fully_qualified_name() for node in (reasoner, camera)]
        command_line.refuse_strangers_files(names)
        if options.config:
            check_keys(options.config, names)
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


def _overrides(*given: Mapping[str, Any]) -> list[Parameter]:
    """The last value given for each name; None leaves it to parameter files and defaults."""
    values = {name: value for some in given for name, value in some.items() if value is not None}
    return [Parameter(name, value=value) for name, value in values.items()]


def _parse(args: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Our own options, and what stands behind ``--ros-args``."""
    parser = argparse.ArgumentParser(
        prog="demo",
        description="Camera footage in, robot actions out.",
        epilog="Any parameter of the camera and the reasoner: --ros-args -p loop:=false",
        allow_abbrev=False,
    )
    parser.add_argument("--source", help="video, image folder, rosbag2, or 'synthetic' (the default)")
    parser.add_argument("--duration", type=float, default=0.0, help="seconds to run; 0: until Ctrl-C")
    parser.add_argument(
        "--rate-hz", "--rate_hz", "--rate", type=float, help="camera images a second; default: 60"
    )
    parser.add_argument("--config", type=Path, help="ROS parameter file; default: the tiny model's")
    args = list(args)
    split = args.index("--ros-args") if "--ros-args" in args else len(args)
    options = parser.parse_args(_joined(args[:split]))
    if options.config and not options.config.is_file():
        parser.error(f"--config must name a parameter file, got {options.config}")
    if not 0 <= options.duration < float("inf"):
        parser.error(f"--duration must be at least 0 seconds, got {options.duration}")
    return options, args[split + 1 :]


def _joined(args: Sequence[str]) -> list[str]:
    """``--source -dash.mp4`` as ``--source=-dash.mp4``: argparse takes the former for two options."""
    joined: list[str] = []
    for arg in args:
        if joined and joined[-1] in ("--source", "--config"):
            joined[-1] += f"={arg}"
        else:
            joined.append(arg)
    return joined


if __name__ == "__main__":
    sys.exit(main())
