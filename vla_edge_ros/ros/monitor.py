# SPDX-License-Identifier: Apache-2.0
"""Shows a running graph in a terminal, from its topics alone: ``ros2 run vla_edge_ros monitor``.

It subscribes to ``status``, ``episode`` and ``/diagnostics``, best effort, and to nothing else: one more
subscriber of images would double their traffic, and hold up a camera that waits for its subscribers.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.clock import Clock, ClockType
from rclpy.exceptions import InvalidNamespaceException
from rclpy.node import Node
from rclpy.validate_namespace import validate_namespace

from vla_edge_ros.console import READER_LEFT, console_program
from vla_edge_ros.errors import ConfigError, shown
from vla_edge_ros.monitor.graph_state import GraphState, Publishers
from vla_edge_ros.monitor.line import painted
from vla_edge_ros.monitor.one_line import OneLine
from vla_edge_ros.monitor.reading import WARN, Reading
from vla_edge_ros.monitor.screen import View, screen
from vla_edge_ros.monitor.terminal import Terminal, can_draw, has_colour, is_unicode
from vla_edge_ros.ros.command_line import CommandLine
from vla_edge_ros.ros.diagnostics_publisher import TOPIC as DIAGNOSTICS
from vla_edge_ros.ros.qos import monitor_qos, subscribe
from vla_edge_ros.ros.spin import Runnable, StopRequest, run_nodes

NAMESPACE = "vla"
DRAW_EVERY_S, LINE_EVERY_S, LOOK_EVERY_S = 0.5, 1.0, 1.0
MOST_ELSEWHERE = 5
Show = Callable[[GraphState], None]


class MonitorNode(Node):
    """Takes messages into ``state`` and has it shown every ``every_s``; ``stop`` ends with ``leave``.

    ``show`` may raise ``OSError`` where the terminal or the pipe is gone; ``on_unread`` is called then.
    Raises ``ConfigError`` for a namespace that cannot be one.
    """

    def __init__(
        self,
        namespace: str,
        show: Show,
        every_s: float,
        on_unread: Callable[[], None],
        leave: Callable[[], None] = lambda: None,
    ):
        try:
            validate_namespace("/" + namespace.strip("/"))
        except InvalidNamespaceException as error:
            raise ConfigError(f"--namespace must be a ROS namespace, got {namespace!r}") from error
        super().__init__(f"monitor_{os.getpid()}", namespace=namespace, start_parameter_services=False)
        self.state = GraphState(self.get_namespace())
        self._show, self._every_s, self._on_unread, self._leave = show, every_s, on_unread, leave
        callbacks = {"status": self._take_status, "episode": self._take_episode, DIAGNOSTICS: self._take_all}
        made = {
            topic: subscribe(self, DiagnosticArray, topic, take, monitor_qos(), self._mismatch(topic))
            for topic, take in callbacks.items()
        }
        self._status_topic = made["status"].topic_name
        self._diagnostics_topic = made[DIAGNOSTICS].topic_name

    def start(self) -> None:
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.look()
        self.show()
        self.create_timer(LOOK_EVERY_S, self.look, clock=steady)
        self.create_timer(self._every_s, self.show, clock=steady)

    def stop(self) -> None:
        self._leave()

    def look(self) -> None:
        """Who publishes, by the graph."""
        self.state.publishers = Publishers(
            self._status_topic,
            self.count_publishers(self._status_topic),
            self.count_publishers(self._diagnostics_topic),
            self._elsewhere() if self.state.cycle is None else (),
            os.environ.get("ROS_DOMAIN_ID") or "0",
        )

    def show(self) -> None:
        try:
            self._show(self.state)
        except OSError:
            self._on_unread()

    def _elsewhere(self) -> tuple[str, ...]:
        """Topics that a reasoner in another namespace would publish."""
        others = (
            shown(name)
            for name, types in self.get_topic_names_and_types()
            if name.endswith("/status")
            and name != self._status_topic
            and "diagnostic_msgs/msg/DiagnosticArray" in types
            and self.count_publishers(name)
        )
        return tuple(sorted(others)[:MOST_ELSEWHERE])

    def _take_status(self, message: DiagnosticArray) -> None:
        self.state.take_status(message, time.monotonic(), time.time())

    def _take_episode(self, message: DiagnosticArray) -> None:
        self.state.take_episode(message, time.monotonic())

    def _take_all(self, message: DiagnosticArray) -> None:
        self.state.take_diagnostics(message, time.monotonic(), time.time())

    def _mismatch(self, topic: str) -> Callable[[str], None]:
        """Shown with the faults: a line in the log would be written across the screen."""

        def note(policy: str) -> None:
            text = f"a publisher of {topic} does not match in {policy}: its messages do not arrive"
            self.state.faults.see(Reading(f"{topic}: Monitor", WARN, text, {}), time.time())

        return note


def draw_on(terminal: Terminal, *, with_colour: bool, with_blocks: bool) -> Show:
    """The whole screen. A column stays free: behind a full line terminals differ in where the cursor is."""

    def show(state: GraphState) -> None:
        width, height = terminal.size()
        lines = screen(state, View(width - 1, height, with_blocks), time.monotonic(), time.time())
        terminal.draw([painted(line, width - 1, has_colour=with_colour) for line in lines])

    return show


def print_lines() -> Show:
    one_line = OneLine()

    def show(state: GraphState) -> None:
        for line in one_line.lines(state, time.monotonic(), time.time()):
            print(line, flush=True)

    return show


@console_program
def main(args: Sequence[str] | None = None) -> int:
    """``ros2 run vla_edge_ros monitor``; 0 on a signal and after ``--duration``."""
    options, ros_args = _parse(sys.argv[1:] if args is None else args)
    command_line = CommandLine(["--ros-args", *ros_args], [])
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    terminal = Terminal(sys.stdout.fileno(), sys.stdout.encoding)
    draws = can_draw(sys.stdout, os.environ) and not options.lines

    def create(stop: StopRequest) -> Sequence[Runnable]:
        command_line.refuse_unknown()

        def end_unread() -> None:
            stop.request(READER_LEFT)

        if not draws:
            node = MonitorNode(options.namespace, print_lines(), LINE_EVERY_S, end_unread)
        else:
            show = draw_on(terminal, with_colour=has_colour(os.environ), with_blocks=is_unicode(sys.stdout))
            node = MonitorNode(options.namespace, show, DRAW_EVERY_S, end_unread, terminal.leave)
            terminal.redraw = node.show
            terminal.enter()
        if options.duration:
            steady = Clock(clock_type=ClockType.STEADY_TIME)
            node.create_timer(options.duration, stop.request, clock=steady)
        return [node]

    try:
        return run_nodes(create, ["--ros-args", *ros_args])
    finally:
        terminal.leave()  # where the node did not come as far as its own end


def _parse(args: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Our own options, and what stands behind ``--ros-args``."""
    parser = argparse.ArgumentParser(
        prog="monitor",
        description="Shows a running graph in the terminal, from its topics; Ctrl-C ends it.",
        epilog="Without a terminal, or with TERM=dumb, it prints a line a second. NO_COLOR=1: no colours.",
        allow_abbrev=False,
    )
    parser.add_argument("--namespace", default=NAMESPACE, help=f"of the reasoner; default: {NAMESPACE}")
    parser.add_argument("--lines", action="store_true", help="a line a second on a terminal, too")
    parser.add_argument("--duration", type=float, default=0.0, help="seconds to run; 0: until Ctrl-C")
    args = list(args)
    split = args.index("--ros-args") if "--ros-args" in args else len(args)
    options = parser.parse_args(args[:split])
    if not 0 <= options.duration < float("inf"):
        parser.error(f"--duration must be at least 0 seconds, got {options.duration}")
    return options, args[split + 1 :]


if __name__ == "__main__":
    sys.exit(main())
