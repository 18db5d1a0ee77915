# SPDX-License-Identifier: Apache-2.0
"""A controller's view of a run, from a process of its own: what arrived, when, and what did not.

``python -m vla_edge_ros.bench.graph.controller_probe --json PATH`` subscribes to ``/vla/action`` and
``/vla/status`` until SIGTERM, then writes its findings. From the first action to the last it also watches
for stalls: those that this process shares with the node's are the machine's.
"""

from __future__ import annotations

import argparse
import json
import signal
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from trajectory_msgs.msg import JointTrajectory

from vla_edge_ros.bench.graph.stall_watch import StallWatch
from vla_edge_ros.bench.report import quantiles
from vla_edge_ros.console import console_program
from vla_edge_ros.ros.messages import is_stop
from vla_edge_ros.types import NS_PER_MS, NS_PER_S

RELIABLE = QoSProfile(depth=100, reliability=ReliabilityPolicy.RELIABLE)
END_OF_RUN = -1  # the cycle of the zero motion that ends a run; it answers none


@dataclass(frozen=True, slots=True)
class Findings:
    """``cycles_missing``: cycle numbers between the first and the last action without a status message.

    ``actions_missing``: status messages that speak of an action less the actions that came; 0 is right, as
    is 0 for everything named ``*_back``, ``*_twice`` and ``*_missing``.
    """

    actions: int
    cycles: int
    cycles_missing: int
    cycles_twice: int
    actions_missing: int
    stamps_back: int
    gap_ms_median: float
    gap_ms_p99: float
    gap_ms_max: float
    stamp_to_arrival_ms_median: float
    stamp_to_arrival_ms_p99: float
    last_is_zero_motion: bool


class ControllerProbe:
    """Collects in callbacks, judges at the end."""

    def __init__(self) -> None:
        self._arrivals_ns: list[int] = []
        self._stamps_ns: list[int] = []
        self._ages_ms: list[float] = []
        self._cycles: list[int] = []
        self._sources: list[str] = []
        self._last: list[float] = []

    @property
    def has_begun(self) -> bool:
        return bool(self._arrivals_ns)

    @property
    def has_ended(self) -> bool:
        return bool(self._cycles) and self._cycles[-1] == END_OF_RUN

    def on_action(self, message: JointTrajectory) -> None:
        stamp_ns = message.header.stamp.sec * NS_PER_S + message.header.stamp.nanosec
        self._arrivals_ns.append(time.monotonic_ns())
        if not is_stop(message):  # which has the time now, and comes from no picture
            self._stamps_ns.append(stamp_ns)
            self._ages_ms.append((time.time_ns() - stamp_ns) / NS_PER_MS)
        self._last = list(message.points[0].positions)

    def on_status(self, message: DiagnosticArray) -> None:
        values = {item.key: item.value for item in message.status[0].values}
        self._cycles.append(int(values["cycle"]))
        self._sources.append(values["source"])

    def findings(self) -> Findings:
        first = next((i for i, source in enumerate(self._sources) if source != "none"), len(self._sources))
        cycles = [cycle for cycle in self._cycles[first:] if cycle != END_OF_RUN]
        seen = set(cycles)
        expected = range(min(seen), max(seen) + 1) if seen else range(0)
        gaps = quantiles(np.diff(self._arrivals_ns) / NS_PER_MS)
        ages = quantiles(self._ages_ms)
        return Findings(
            actions=len(self._arrivals_ns),
            cycles=len(cycles),
            cycles_missing=len(expected) - len(seen),
            cycles_twice=len(cycles) - len(seen),
            actions_missing=sum(source != "none" for source in self._sources) - len(self._arrivals_ns),
            stamps_back=int((np.diff(self._stamps_ns) < 0).sum()),
            gap_ms_median=gaps["median"],
            gap_ms_p99=gaps["p99"],
            gap_ms_max=gaps["max"],
            stamp_to_arrival_ms_median=ages["median"],
            stamp_to_arrival_ms_p99=ages["p99"],
            last_is_zero_motion=not any(self._last[:-1]),
        )


@console_program
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", required=True, help="where the findings go")
    options = parser.parse_args()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C is for the graph; it stops us
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node("controller_probe", namespace="vla")
    probe = ControllerProbe()
    node.create_subscription(JointTrajectory, "action", probe.on_action, RELIABLE)
    node.create_subscription(DiagnosticArray, "status", probe.on_status, RELIABLE)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    while not stop.is_set() and not probe.has_begun:
        executor.spin_once(timeout_sec=0.1)
    stalls = StallWatch()
    stalls.start()
    while not stop.is_set():
        executor.spin_once(timeout_sec=0.1)
        if probe.has_ended:
            stalls.stop()
    stalls.stop()
    findings = {**asdict(probe.findings()), "stalls": stalls.as_json()}
    Path(options.json).write_text(json.dumps(findings, indent=2) + "\n")
    node.destroy_node()
    rclpy.try_shutdown()


if __name__ == "__main__":
    main()
