# SPDX-License-Identifier: Apache-2.0
"""The whole graph for a while, watched from outside, calm or with trouble on a timetable.

``python -m vla_edge_ros.bench.graph.live_run --minutes 30 [--scenario trouble] [--source clip.mp4]
[--json PATH]``

Camera and reasoning node run here, a controller's probe in a process of its own. Every cycle is recorded;
at the end each fallback is put to the trouble that held when it happened, the memory's growth is measured,
and the frames are counted from the camera to their use. Each late cycle (``incidents``) is put to what stood
still at that time, in the node's process and in the probe's, and to the engine's slow calls. Needs an hour or
a minute, but no GPU.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import String

from vla_edge_ros.bench.graph.incidents import LateCycle, call_row, explain
from vla_edge_ros.bench.graph.stall_watch import StallWatch, from_json, totals
from vla_edge_ros.bench.graph.timed_engine import SlowestCalls, TimedEngine
from vla_edge_ros.bench.graph.trouble import SCENARIOS, Timetable, TroubledEngine
from vla_edge_ros.bench.process_memory import gpu_used_mb, resident_mb
from vla_edge_ros.bench.report import command, machine, print_table, quantiles, write_json
from vla_edge_ros.console import console_program
from vla_edge_ros.engines.load import load_engine
from vla_edge_ros.errors import VlaEdgeError
from vla_edge_ros.ros.reasoning_node import ReasoningNode
from vla_edge_ros.ros.replay_node import ReplayNode
from vla_edge_ros.runtime.metrics import MetricsSnapshot
from vla_edge_ros.types import NS_PER_S, ActionSource, CycleRecord, Outcome

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
MAX_INCIDENTS = 50
SHOWN_CALLS = 5
OWN_TABLES = ("passes", "fallbacks", "errors", "controller", "stalls_node", "stalls_machine")
ROWS = ("slowest_calls", "incidents")
SETTLE_S = 2.0  # discovery, and messages on their way at the end


class Watch:
    """Counts what each record says; called by the answering threads, one at a time.

    Keeps a number a cycle at most: what is measured here is also whether memory grows.
    """

    def __init__(self, timetable: Timetable):
        self._timetable = timetable
        self.cycles = 0  # from the first action on
        self.latencies_ms = array("f")  # of fresh actions
        self.passes: Counter[int] = Counter()  # of fresh actions, the prefill included
        self.fallbacks: Counter[str] = Counter()  # "trouble that held: outcome -> source"
        self.errors: Counter[str] = Counter()
        self.late: list[LateCycle] = []  # the first; explained after the run, not in the thread that answers

    def __call__(self, record: CycleRecord) -> None:
        if record.outcome is Outcome.STOPPED or (not self.cycles and record.source is not ActionSource.FRESH):
            return
        self.cycles += 1
        if record.source is ActionSource.FRESH:
            self.latencies_ms.append(record.latency_ms)
            if record.times:
                self.passes[1 + len(record.times.decode_ms)] += 1
        else:
            trouble = self._timetable.kind_at(self._timetable.progress())
            self.fallbacks[f"{trouble}: {record.outcome.value} -> {record.source.value}"] += 1
            if record.outcome is Outcome.LATE and len(self.late) < MAX_INCIDENTS:
                self.late.append(LateCycle(record.cycle, time.monotonic_ns(), record.latency_ms))
        if record.error:
            self.errors[re.sub(r"[0-9]+", "N", record.error)] += 1


class Cameras:
    """The replay camera, replaced where the timetable asks for another rate or none."""

    def __init__(self, executor: SingleThreadedExecutor, source: str, rate_hz: float):
        self._executor = executor
        self._source = source
        self._rate_hz = rate_hz
        self._node: ReplayNode | None = None
        self._mode = "none"
        self.published = 0

    def set_mode(self, mode: str) -> None:
        """``"normal"``, ``"slow"`` (10 Hz) or ``"stopped"``."""
        if mode == self._mode:
            return
        self._mode = mode
        self.stop()
        if mode != "stopped":
            rate_hz = self._rate_hz if mode == "normal" else 10.0
            arguments = ["--ros-args", "-p", f"source:={self._source}", "-p", f"rate_hz:={rate_hz}"]
            self._node = ReplayNode(namespace="vla", cli_args=arguments)
            self._executor.add_node(self._node)
            self._node.start()

    def stop(self) -> None:
        if self._node is None:
            return
        self._node.stop()
        self.published += self._node.published
        self._executor.remove_node(self._node)
        self._node.destroy_node()
        self._node = None


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Run the graph for ``options.minutes``; return the row of findings."""
    seconds = options.minutes * 60
    start_s = float("inf")  # set when everybody is ready

    def progress() -> float:
        return (time.monotonic() - start_s) / seconds

    timetable = Timetable(SCENARIOS[options.scenario], progress)
    watch, stalls, calls = Watch(timetable), StallWatch(), SlowestCalls()
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    executor = SingleThreadedExecutor()
    arguments = ["--ros-args", "--params-file", options.config]
    for parameter in options.parameter:
        arguments += ["-p", parameter]
    node = ReasoningNode(
        make_engine=lambda config: TimedEngine(TroubledEngine(load_engine(config), timetable), calls),
        observers=[watch],
        namespace="vla",
        cli_args=arguments,
    )
    talker = rclpy.create_node("talker", namespace="vla")
    instruction = talker.create_publisher(String, "instruction", LATCHED)
    executor.add_node(node)
    executor.add_node(talker)
    with tempfile.TemporaryDirectory() as folder:
        findings = Path(folder) / "findings.json"
        probe = subprocess.Popen(
            [sys.executable, "-m", "vla_edge_ros.bench.graph.controller_probe", "--json", str(findings)]
        )
        node.start()
        if not node.is_active:
            probe.kill()
            raise VlaEdgeError("the reasoning node did not start; the reason is in the log above")
        cameras = Cameras(executor, options.source, options.rate)
        spinning = threading.Event()
        spinner = threading.Thread(target=_spin, args=(executor, spinning), name="executor")
        spinner.start()
        time.sleep(SETTLE_S)
        # Before the first frame and after the last cycle: the question may stand in a cycle's way.
        gpu_mb = [gpu_used_mb()]
        calls.forget()  # the warm-up's
        start_s = time.monotonic()
        stalls.start()
        memory = _follow_timetable(timetable, cameras, instruction)
        cameras.stop()
        time.sleep(SETTLE_S)
        stalls.stop()
        spinning.set()
        spinner.join()
        frames = asdict(node.frames)
        metrics = node.metrics
        node.trigger_deactivate()  # the last message; the engine keeps its memory until the node stops
        gpu_mb.append(gpu_used_mb())
        node.stop()
        time.sleep(SETTLE_S)
        probe.terminate()
        probe.wait(30)
        outside = json.loads(findings.read_text())
    rclpy.try_shutdown()
    machine_stalls = outside.pop("stalls")
    beside = from_json(machine_stalls["stalls"])
    slowest = calls.slowest_first()
    return {
        **_findings(options, watch, cameras.published, frames, metrics, memory, outside),
        "gpu_mb_start": gpu_mb[0],
        "gpu_mb_end": gpu_mb[1],
        "stalls_node": totals(stalls.count, stalls.stalls),
        "stalls_machine": totals(machine_stalls["count"], beside),
        "slowest_calls": [call_row(call) for call in slowest[:SHOWN_CALLS]],
        "incidents": explain(watch.late, round(start_s * NS_PER_S), stalls.stalls, beside, slowest),
    }


def _spin(executor: SingleThreadedExecutor, stop: threading.Event) -> None:
    while not stop.is_set():
        executor.spin_once(timeout_sec=0.1)


def _follow_timetable(
    timetable: Timetable, cameras: Cameras, instruction: Publisher[String]
) -> list[tuple[float, float]]:
    """Until the run's end; ``(seconds, resident MB)`` a second."""
    memory, start_s, number = [], time.monotonic(), 0
    while timetable.progress() < 1:
        if timetable.holds("camera_stopped"):
            cameras.set_mode("stopped")
        else:
            cameras.set_mode("slow" if timetable.holds("camera_10_hz") else "normal")
        if timetable.holds("instruction_every_second"):
            number += 1
            instruction.publish(String(data=f"pick up object {number}"))
        memory.append((time.monotonic() - start_s, resident_mb()))
        time.sleep(1.0)
    return memory


def _findings(
    options: argparse.Namespace,
    watch: Watch,
    published: int,
    frames: dict[str, Any],
    metrics: MetricsSnapshot,
    memory: list[tuple[float, float]],
    outside: dict[str, Any],
) -> dict[str, Any]:
    times_s, resident = np.array(memory).T
    settled = times_s > min(60.0, times_s[-1] / 4)
    slope = np.polyfit(times_s[settled] / 3600, resident[settled], 1)[0]
    latency = quantiles(watch.latencies_ms)
    return {
        "scenario": options.scenario,
        "minutes": options.minutes,
        "source": Path(options.source).name,
        "config": Path(options.config).name,
        "parameters": options.parameter,
        "camera_hz": options.rate,
        "cycles": watch.cycles,
        "fresh": len(watch.latencies_ms),
        "late_messages": metrics.late_messages,
        "latest_message_ms_after_deadline": metrics.latest_message_ms,
        "unanswered_cycles": metrics.unanswered_cycles,
        "refused": metrics.outcomes.get(Outcome.REFUSED, 0),
        "longest_repeat": metrics.longest_repeat,
        "passes_mean": sum(count * times for count, times in watch.passes.items())
        / max(watch.passes.total(), 1),
        "latency_ms_median": latency["median"],
        "latency_ms_p99": latency["p99"],
        "latency_ms_max": latency["max"],
        "frames_published": published,
        **{f"frames_{name}": count for name, count in frames.items()},
        "resident_mb_settled": float(resident[settled][0]),
        "resident_mb_end": float(resident[-1]),
        "resident_mb_an_hour": float(slope),
        "passes": {str(count): watch.passes[count] for count in sorted(watch.passes)},
        "fallbacks": dict(sorted(watch.fallbacks.items())),
        "errors": dict(sorted(watch.errors.items())),
        "controller": outside,
    }


@console_program
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), default="calm")
    parser.add_argument("--source", default="synthetic")
    parser.add_argument("--rate", type=float, default=60.0, help="camera rate in Hz")
    parser.add_argument("--config", default="config/tiny.yaml", help="parameter file of the reasoning node")
    parser.add_argument(
        "-p", "--parameter", action="append", default=[], help="name:=value, as ros2 run takes it"
    )
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    try:
        row = run(options)
    except VlaEdgeError as error:
        sys.exit(f"live_run: {error}")
    print(machine())
    print_table(
        [{"what": key, "value": value} for key, value in row.items() if key not in (*OWN_TABLES, *ROWS)]
    )
    for name in OWN_TABLES:
        print_table([{name: key, "value": value} for key, value in row[name].items()])
    for name in ROWS:
        print(f"{name}:")
        print_table(row[name])
    if options.json:
        write_json(options.json, command("graph.live_run"), [row])


if __name__ == "__main__":
    main()
