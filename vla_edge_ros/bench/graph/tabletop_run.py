# SPDX-License-Identifier: Apache-2.0
"""The trained policy on the simulated arm in real time, through ROS, as the demo runs it.

``python -m vla_edge_ros.bench.graph.tabletop_run --episodes 100 [--tasks recall --delays 280] [--json PATH]``

The robot runs in a process of its own; between them are only topics and the clock. One row a task, with a
95 % interval (Wilson), and one of all cycles. Episodes are those of the closed-loop study, so that its
lockstep shares can be compared. Cycles between two episodes have no new image and count as such.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rclpy.parameter import Parameter

from vla_edge_ros.bench.report import command, machine, print_table, quantiles, write_json
from vla_edge_ros.console import console_program
from vla_edge_ros.recording.summary import summarise
from vla_edge_ros.ros.reasoning_node import ReasoningNode
from vla_edge_ros.ros.share import TABLETOP_MODEL, share_file, trained_model
from vla_edge_ros.ros.spin import Runnable, StopRequest, run_nodes
from vla_edge_ros.ros.tabletop_demo import NAMESPACE, DemoReporter
from vla_edge_ros.tabletop.config import CAMERA_RATES_HZ
from vla_edge_ros.tabletop.results import EpisodeResult
from vla_edge_ros.types import ActionSource, CycleRecord, Outcome
from vla_edge_ros.wilson import wilson_interval


def task_rows(results: Sequence[EpisodeResult]) -> list[dict[str, Any]]:
    """Success of each task."""
    rows = []
    for task, delay in dict.fromkeys((result.task, result.delay) for result in results):
        played = [result for result in results if (result.task, result.delay) == (task, delay)]
        succeeded = [result for result in played if result.succeeded]
        low, high = wilson_interval(len(succeeded), len(played))
        touch = quantiles([r.cycles_to_touch for r in succeeded])["median"] if succeeded else None
        rows.append(
            {
                "task": task,
                "delay": delay,
                "episodes": len(played),
                "success": round(len(succeeded) / len(played), 4),
                "success_low": round(low, 4),
                "success_high": round(high, 4),
                "cycles_to_touch_median": touch,
                "actions": sum(result.actions for result in played),
                "refused_actions": sum(result.refused_actions for result in played),
                "skipped_pictures": sum(result.skipped for result in played),
            }
        )
    return rows


def cycle_row(records: Sequence[CycleRecord], deadline_ms: float) -> dict[str, Any]:
    """All cycles from the first fresh action on; latencies are of fresh actions."""
    first = next((i for i, record in enumerate(records) if record.source is ActionSource.FRESH), len(records))
    known = records[first:]
    if not known:
        return {"cycles": 0}
    summary = summarise(known, {"config": {"timing": {"deadline_ms": deadline_ms}}})
    latency = asdict(summary.fresh_latency_ms)
    return {
        "cycles": summary.cycles,
        **{outcome.value: summary.outcomes.get(outcome.value, 0) for outcome in Outcome},
        "late_messages": summary.late_messages,
        "longest_repeat": summary.longest_repeat,
        **{f"latency_ms_{name}": round(latency[name], 3) for name in ("p50", "p99", "max")},
    }


def run(options: argparse.Namespace) -> tuple[int, list[EpisodeResult], dict[str, Any]]:
    """Exit code, results and the row of cycles."""
    records: list[CycleRecord] = []
    reporters: list[DemoReporter] = []
    deadline_ms: list[float] = []
    model = options.model or trained_model(TABLETOP_MODEL)
    rules = [f"camera_hz:={options.rate_hz}", f"episodes:={options.episodes}"]
    rules += [f"tasks:=[{', '.join(options.tasks)}]", f"delays:={options.delays}"]
    arguments = ["--ros-args", "--params-file", str(options.config or share_file("config/tabletop.yaml"))]
    for parameter in options.parameter:
        arguments += ["-p", parameter]
    with tempfile.TemporaryDirectory() as folder:

        def create(stop: StopRequest) -> Sequence[Runnable]:
            reasoner = ReasoningNode(
                namespace=NAMESPACE,
                observers=[records.append],
                parameter_overrides=[Parameter("model.path", value=str(model))],
            )
            deadline_ms.append(float(reasoner.get_parameter("timing.deadline_ms").value))
            reporters.append(DemoReporter(reasoner, Path(folder), rules, 0.0, stop))
            return [reasoner, *reporters]

        code = run_nodes(create, arguments)
        results = reporters[0].results if reporters else []
    return code, results, cycle_row(records, *deadline_ms)


@console_program
def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--episodes", type=int, default=100, help="of all tasks together, which take turns")
    parser.add_argument("--tasks", nargs="+", default=["point", "recall"])
    parser.add_argument("--delays", nargs="+", type=int, default=[0, 280], help="one a task")
    parser.add_argument("--rate-hz", type=int, choices=CAMERA_RATES_HZ, default=30)
    parser.add_argument("--config", type=Path, help="parameter file of the reasoning node")
    parser.add_argument("--model", type=Path, help="folder of weights; default: those of the package")
    parser.add_argument(
        "-p", "--parameter", action="append", default=[], help="name:=value, as ros2 run takes it"
    )
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    if options.episodes < 1:
        parser.error(f"--episodes must be at least 1, got {options.episodes}")
    code, results, cycles = run(options)
    if code or not results:
        print("tabletop_run: no episode was played to its end", file=sys.stderr)
        return code or 1
    print(machine())
    rows = task_rows(results)
    print_table(rows)
    print_table([{"what": key, "value": value} for key, value in cycles.items()])
    if options.json:
        about = {"camera_hz": options.rate_hz, "weights": "trained" if options.model is None else "given"}
        write_json(options.json, command("graph.tabletop_run"), [*({**about, **row} for row in rows), cycles])
    return 0


if __name__ == "__main__":
    sys.exit(main())
