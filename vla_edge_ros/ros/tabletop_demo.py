# SPDX-License-Identifier: Apache-2.0
"""The trained policy drives the simulated arm: the robot in a process of its own, the reasoner in this one.

A live line a second, a line for each episode, and at the end the share of episodes in which the arm touched
the right button; below the floor the exit code is 1. Writes results and a film below ``runs/``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.parameter import Parameter

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.console import console_program
from vla_edge_ros.errors import VlaEdgeError
from vla_edge_ros.ros.command_line import CommandLine
from vla_edge_ros.ros.parameters import NodeConfig
from vla_edge_ros.ros.reasoning_node import ReasoningNode
from vla_edge_ros.ros.robot_process import RobotProcess
from vla_edge_ros.ros.run_report import live_line, summary
from vla_edge_ros.ros.share import TABLETOP_MODEL, share_file, trained_model
from vla_edge_ros.ros.spin import Runnable, StopRequest, run_nodes
from vla_edge_ros.tabletop.config import CAMERA_RATES_HZ
from vla_edge_ros.tabletop.results import EpisodeResult

NAMESPACE = "vla"
# Of the episodes of a minute on a machine that is not busy (measured: 88 of 90); random weights reach 2 %.
FLOOR = 0.8
LONGEST_START_S = 120.0
RESULTS, FILM = "episodes.jsonl", "film.gif"


class DemoReporter(Node):
    """Starts the robot, prints what happens, ends ``duration_s`` (0: never) after the first image."""

    def __init__(
        self,
        reasoner: ReasoningNode,
        folder: Path,
        rules: Sequence[str],
        duration_s: float,
        stop: StopRequest,
    ):
        super().__init__("demo", namespace=NAMESPACE)
        self._reasoner, self._folder, self._rules = reasoner, folder, rules
        self._duration_s, self._stop = duration_s, stop
        self._created_s = time.monotonic()
        self._first_image_s = 0.0
        self._robot: RobotProcess | None = None
        self._second = 0
        self._told = 0
        self._before, self._frames_before = reasoner.metrics, 0
        self.error = ""

    @property
    def results(self) -> list[EpisodeResult]:
        return self._robot.results if self._robot is not None else []

    def start(self) -> None:
        """Raises ``VlaEdgeError`` where the reasoner did not come up."""
        if not self._reasoner.is_active:
            raise VlaEdgeError("the reasoner did not start; the reason is in the log above")
        rules = [*self._rules, f"film:='{self._folder / FILM}'"]
        self._robot = RobotProcess(NAMESPACE, self._folder / RESULTS, rules)
        self.create_timer(1.0, self._report, clock=Clock(clock_type=ClockType.STEADY_TIME))

    def stop(self) -> None:
        if self._robot is not None:
            self._robot.stop()

    def _report(self) -> None:
        assert self._robot is not None
        self._second += 1
        now, frames = self._reasoner.metrics, self._reasoner.frames.written
        try:
            print(live_line(self._second, frames - self._frames_before, self._before, now), flush=True)
            is_over = self._robot.has_ended() or self._is_over(frames)  # before its last line is read
            for result in self.results[self._told :]:
                self._told += 1
                print(result.text, flush=True)
            if is_over:
                self._stop.request()
        except OSError:  # who read the lines has left: end in order, `console_program` sees to the rest
            self._stop.request()
        except VlaEdgeError as error:
            self.error = str(error)
            self._stop.request(1)
        self._before, self._frames_before = now, frames

    def _is_over(self, frames: int) -> bool:
        """Raises ``VlaEdgeError`` where no image comes at all."""
        now_s = time.monotonic()
        if not self._first_image_s:
            if not frames and now_s - self._created_s > LONGEST_START_S:
                raise VlaEdgeError(f"the simulated robot must send an image within {LONGEST_START_S:g} s")
            self._first_image_s = now_s if frames else 0.0
        return bool(self._duration_s and frames) and now_s - self._first_image_s >= self._duration_s

    def print_summary(self) -> None:
        print(summary(self._reasoner.metrics, self._reasoner.frames, None))


def judge(results: Sequence[EpisodeResult], floor: float) -> tuple[str, int]:
    """Text and exit code: 1 below the floor, and where no episode ended."""
    if not results:
        return "no episode ended in this time; give it longer, as in: make demo DURATION=60", 1
    lines = []
    for task in dict.fromkeys(result.task for result in results):
        of_task = [result.succeeded for result in results if result.task == task]
        lines.append(f"success   {task}: {sum(of_task)} of {len(of_task)}")
    share = sum(result.succeeded for result in results) / len(results)
    verdict = "reaches" if share >= floor else "is below"
    lines.append(
        f"success   {share:.0%} of {len(results)} episodes, which {verdict} the floor of {floor:.0%}"
    )
    return "\n".join(lines), int(share < floor)


@console_program
def main(args: Sequence[str] | None = None) -> int:
    options, ros_args = _parse(sys.argv[1:] if args is None else args)
    command_line = CommandLine(["--ros-args", *ros_args], [NodeConfig, VlaConfig])
    folder = options.out / f"tabletop_{datetime.now(timezone.utc):%Y%m%d_%H%M%S}"
    reporters: list[DemoReporter] = []

    def create(stop: StopRequest) -> Sequence[Runnable]:
        command_line.refuse_unknown()
        values = {"model.path": str(model), **command_line.texts(VlaConfig)}
        reasoner = ReasoningNode(
            namespace=NAMESPACE,
            parameter_overrides=[Parameter(name, value=text) for name, text in values.items()],
        )
        command_line.refuse_strangers_files([reasoner.get_fully_qualified_name()])
        rules = [f"camera_hz:={options.rate_hz}", *options.robot]
        reporters.append(DemoReporter(reasoner, folder.absolute(), rules, options.duration, stop))
        return [reasoner, *reporters]

    try:
        model = options.model or trained_model(TABLETOP_MODEL)
        config = share_file("config/tabletop.yaml")
    except VlaEdgeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    exit_code = run_nodes(create, ["--ros-args", "--params-file", str(config), *ros_args])
    if not reporters or exit_code:
        if reporters and reporters[0].error:
            print(f"error: {reporters[0].error}", file=sys.stderr)
        return exit_code
    reporters[0].print_summary()
    text, exit_code = judge(reporters[0].results, options.floor)
    print(text)
    if (folder / FILM).is_file():
        print(f"film      {folder / FILM}")
    return exit_code


def _parse(args: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Our own options, and what stands behind ``--ros-args``."""
    parser = argparse.ArgumentParser(
        prog="tabletop_demo",
        description="The trained policy drives the simulated arm.",
        epilog="Any parameter of the reasoner: --ros-args -p timing.period_ms:=50.0",
        allow_abbrev=False,
    )
    parser.add_argument("--duration", type=float, default=60.0, help="seconds to run; 0: until Ctrl-C")
    parser.add_argument(
        "--rate-hz", type=int, choices=CAMERA_RATES_HZ, default=30, help="camera images a second"
    )
    parser.add_argument("--model", type=Path, help="folder of weights; default: those of the package")
    parser.add_argument(
        "--robot",
        action="append",
        default=[],
        metavar="NAME:=VALUE",
        help="a parameter of the simulated robot, as in tasks:=[recall]",
    )
    parser.add_argument("--floor", type=float, default=FLOOR, help="share of success that is expected")
    parser.add_argument("--out", type=Path, default=Path("runs"), help="folder for results and film")
    args = list(args)
    split = args.index("--ros-args") if "--ros-args" in args else len(args)
    options = parser.parse_args(args[:split])
    if not 0 <= options.duration < float("inf"):
        parser.error(f"--duration must be at least 0 seconds, got {options.duration}")
    if not 0 <= options.floor <= 1:
        parser.error(f"--floor must be a share from 0 to 1, got {options.floor}")
    return options, args[split + 1 :]


if __name__ == "__main__":
    sys.exit(main())
