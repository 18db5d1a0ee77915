# SPDX-License-Identifier: Apache-2.0
"""The trained policy on the simulated arm in real time, through ROS, as the demo runs it.

``python -m vla_edge_ros.bench.graph.tabletop_run --episodes 100 [--tasks recall --delays 280] [--json PATH]``

The robot runs in a process of its own; between them are only topics and the clock. One row a task, with a
95 % interval (Wilson), and one of all cycles. Episodes are those of the closed-loop study, so that its
lockstep shares can be compared. Cycles between two episodes have no new image and count as such.
``--graphs N`` plays the episodes with N robots at the same time, each with a reasoner and a ROS domain of its
own, on a machine that has the cores for it; each graph has its row of cycles.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
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
from vla_edge_ros.ros.tabletop_demo import NAMESPACE, RESULTS, DemoReporter
from vla_edge_ros.tabletop.config import CAMERA_RATES_HZ, FIRST_SEED
from vla_edge_ros.tabletop.results import EpisodeResult, read_results
from vla_edge_ros.types import ActionSource, CycleRecord, Outcome
from vla_edge_ros.wilson import wilson_interval

CYCLES = "cycles.json"


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


def run(options: argparse.Namespace, folder: Path) -> tuple[int, list[EpisodeResult], dict[str, Any]]:
    """Exit code, results and the row of cycles."""
    records: list[CycleRecord] = []
    reporters: list[DemoReporter] = []
    deadline_ms: list[float] = []
    model = options.model or trained_model(TABLETOP_MODEL)
    rules = [f"camera_hz:={options.rate_hz}", f"episodes:={options.episodes}"]
    rules += [f"first_seed:={FIRST_SEED + options.first_episode}"]
    rules += [f"tasks:=[{', '.join(options.tasks)}]", f"delays:={options.delays}"]
    arguments = ["--ros-args", "--params-file", str(options.config or share_file("config/tabletop.yaml"))]
    for parameter in options.parameter:
        arguments += ["-p", parameter]

    def create(stop: StopRequest) -> Sequence[Runnable]:
        reasoner = ReasoningNode(
            namespace=NAMESPACE,
            observers=[records.append],
            parameter_overrides=[Parameter("model.path", value=str(model))],
        )
        deadline_ms.append(float(reasoner.get_parameter("timing.deadline_ms").value))
        reporters.append(DemoReporter(reasoner, folder, rules, 0.0, stop))
        return [reasoner, *reporters]

    code = run_nodes(create, arguments)
    results = reporters[0].results if reporters else []
    return code, results, cycle_row(records, *deadline_ms)


def run_graphs(
    options: argparse.Namespace, folder: Path
) -> tuple[int, list[EpisodeResult], list[dict[str, Any]]]:
    """As ``run`` in ``options.graphs`` processes at a time; one row of cycles each."""
    each = options.episodes // options.graphs
    first_domain = int(os.environ.get("ROS_DOMAIN_ID", "0")) + 1
    own = [argument for argument in sys.argv[1:] if argument]
    processes = []
    for graph in range(options.graphs):
        place = folder / str(graph)
        place.mkdir()
        given = ["--graphs", "1", "--episodes", str(each), "--folder", str(place)]
        given += ["--first-episode", str(options.first_episode + graph * each)]
        given += ["--json", str(place / CYCLES)]
        log = (place / "log").open("w")
        processes.append(
            subprocess.Popen(
                [sys.executable, "-m", "vla_edge_ros.bench.graph.tabletop_run", *own, *given],
                env={**os.environ, "ROS_DOMAIN_ID": str(first_domain + graph)},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        )
    codes = [process.wait() for process in processes]
    results, cycles = [], []
    for graph, code in enumerate(codes):
        place = folder / str(graph)
        if code:
            print(f"graph {graph} ended with exit code {code}:\n{(place / 'log').read_text()[-2000:]}")
            continue
        results += read_results(place / RESULTS)
        cycles.append({"graph": graph, **json.loads((place / CYCLES).read_text())["rows"][-1]})
    return max(codes), results, cycles


@console_program
def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--episodes", type=int, default=100, help="of all tasks together, which take turns")
    parser.add_argument("--first-episode", type=int, default=0, help="number of the first held-out episode")
    parser.add_argument(
        "--graphs", type=int, default=1, help="robots at the same time; they share --episodes"
    )
    parser.add_argument("--folder", type=Path, help="an empty folder for the episodes' lines and film; kept")
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
    turns = len(options.tasks) * options.graphs
    if options.episodes < 1 or options.graphs < 1:
        parser.error(f"--episodes and --graphs must be at least 1, got {options.episodes}, {options.graphs}")
    if options.graphs > 1 and options.episodes % turns:
        parser.error(f"--episodes must be a multiple of {turns}, tasks by graphs, got {options.episodes}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        cycles: list[dict[str, Any]]
        if options.graphs > 1:
            code, results, cycles = run_graphs(options, folder)
        else:
            code, results, one = run(options, folder)
            cycles = [one]
    if code or not results:
        print("tabletop_run: no episode was played to its end", file=sys.stderr)
        return code or 1
    print(machine())
    rows = task_rows(results)
    print_table(rows)
    print_table(cycles)
    if options.json:
        about = {"camera_hz": options.rate_hz, "weights": "trained" if options.model is None else "given"}
        write_json(
            options.json, command("graph.tabletop_run"), [*({**about, **row} for row in rows), *cycles]
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
