# SPDX-License-Identifier: Apache-2.0
"""What a trained policy achieves on the simulated table, by task, eviction policy, delay and trouble.

``python -m vla_edge_ros.bench.studies.closed_loop --sets policies`` plays episodes of seeds that training
never drew, in lockstep with an engine, in worker processes; rows that the JSON file has already, of the same
model and of as many episodes, are not played again. Shares have 95 % intervals (Wilson).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from vla_edge_ros.bench.report import command, machine, print_table, write_json
from vla_edge_ros.bench.studies.closed_loop_rows import (
    DEFAULT,
    EXPERT,
    SETS,
    Case,
    cases,
    config_of,
    delay_of,
    key_of,
    play_case,
)
from vla_edge_ros.config import VlaConfig
from vla_edge_ros.console import console_program
from vla_edge_ros.engines.base import Engine
from vla_edge_ros.engines.load import load_engine
from vla_edge_ros.quantiles import quantile
from vla_edge_ros.shipped_models import MODELS
from vla_edge_ros.tabletop.lockstep import Result
from vla_edge_ros.tabletop.task_names import TASKS
from vla_edge_ros.wilson import wilson_interval

_PIECE = 5  # episodes that a worker takes at a time


# In a worker: the engine of the pieces that it plays, and what that engine was made for.
_loaded: dict[tuple[object, ...], Engine] = {}


def _engine_for(config: VlaConfig) -> Engine:
    """The eviction policy is the cache's: rows that differ in it alone share an engine."""
    key = (config.model, config.engine, config.cache.capacity_slots, config.action.decoding)
    if key not in _loaded:
        for other in _loaded.values():
            other.close()
        _loaded.clear()
        engine = load_engine(config)
        engine.load()
        _loaded[key] = engine
    return _loaded[key]


def play_piece(work: tuple[Case, str, str, Sequence[int]]) -> tuple[Case, list[Result]]:
    """In a worker: some episodes of one case."""
    case, model, engine_name, numbers = work
    config = config_of(case, model, engine_name)
    engine = None if case.model == EXPERT else _engine_for(config)
    return case, [play_case(case, number, config, engine) for number in numbers]


def row_of(case: Case, results: Sequence[Result]) -> dict[str, Any]:
    """Shares with their intervals; the chunk's times of the machine that played."""
    row: dict[str, Any] = {**key_of(case), "episodes": len(results)}
    for name, values in (
        ("success", [result.succeeded for result in results]),
        ("nearest", [result.nearest for result in results]),
        ("cue_kept_at_go", [result.kept_at_go for result in results]),
        ("cue_kept_at_end", [result.kept_at_end for result in results]),
    ):
        low, high = wilson_interval(sum(values), len(values))
        row[name] = round(sum(values) / len(values), 4)
        row[f"{name}_low"], row[f"{name}_high"] = round(low, 4), round(high, 4)
    touched = sorted(float(result.cycles_to_touch) for result in results if result.succeeded)
    row["cycles_to_touch_median"] = quantile(np.array(touched), 0.5) if touched else None
    compared = sum(result.compared for result in results)
    row["action_repeated"] = round(sum(result.repeated for result in results) / max(1, compared), 4)
    times = np.sort(np.concatenate([result.chunk_ms for result in results]))
    row["chunk_ms_median"], row["chunk_ms_p99"] = (round(float(quantile(times, q)), 3) for q in (0.5, 0.99))
    return row


def digest_of(model: Path) -> str:
    """Of the weights: a row says which it was played with."""
    return hashlib.sha256((model / "model.safetensors").read_bytes()).hexdigest()[:12]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", type=Path, help="folder of trained weights; default: the shipped one for --slots"
    )
    parser.add_argument(
        "--random", type=Path, help="folder of the same sizes with random weights, for the control"
    )
    parser.add_argument("--sets", nargs="+", choices=SETS, default=["tasks"])
    parser.add_argument("--task", help="Python file with a task (tabletop/own_task.py); in place of --sets")
    parser.add_argument("--slots", type=int, choices=(1024, 4096), default=1024)
    parser.add_argument("--decoding", choices=("parallel", "autoregressive"), default="parallel")
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--engine", choices=("numpy", "cuda"), default="numpy")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "--json", type=Path, help="default: docs/benchmarks/closed-loop.json, with --task none"
    )
    options = parser.parse_args()
    if options.json is None and not options.task:
        options.json = Path("docs/benchmarks/closed-loop.json")
    options.model = options.model or MODELS / f"tabletop-{options.slots}"
    return options


@console_program
def main() -> None:
    options = arguments()
    done = json.loads(options.json.read_text())["rows"] if options.json and options.json.exists() else []
    digest = digest_of(options.model)
    named = [Case(task=options.task, slots=options.slots)] if options.task else []
    wanted = named or list(
        dict.fromkeys(case for name in options.sets for case in cases(name, options.slots))
    )
    wanted = [replace(case, decoding=options.decoding) for case in wanted]
    if options.random is None:
        wanted = [case for case in wanted if case.model != "random"]
    wanted = [case for case in wanted if not _is_done(case, done, options.episodes, digest)]
    pieces = [
        (
            case,
            str(options.random if case.model == "random" else options.model),
            options.engine,
            range(first, min(first + _PIECE, options.episodes)),
        )
        for case in wanted
        for first in range(0, options.episodes, _PIECE)
    ]
    results: dict[Case, list[Result]] = {case: [] for case in wanted}
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # one thread a worker
    start = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        for number, (case, played) in enumerate(pool.imap_unordered(play_piece, pieces), 1):
            results[case] += played
            if len(results[case]) < options.episodes:
                continue
            made = {"model_sha256": digest, "engine": options.engine, "machine": _machine()}
            row = {**row_of(case, results[case]), **made}
            done = [old for old in done if not key_of(case).items() <= old.items()] + [row]
            if options.json:
                write_json(options.json, command("studies.closed_loop"), sorted(done, key=_order))
            share = f"{row['success']:.0%} ({row['success_low']:.0%} to {row['success_high']:.0%})"
            left = (time.monotonic() - start) / number * (len(pieces) - number)
            print(f"{case.task} {case.policy}: {share}, {case}; about {left / 60:.0f} min left", flush=True)
    print_table(sorted(done, key=_order))


def _machine() -> str:
    """In short: one file may hold rows of several machines."""
    here = machine()
    gpu = "" if here["gpu"] == "none" else f", {here['gpu']}"
    return f"{here['cpu']}, {here['cores']} cores{gpu}"


def _is_done(case: Case, rows: Sequence[dict[str, Any]], episodes: int, digest: str) -> bool:
    """Also where more episodes were played."""
    identity = {**key_of(case), "model_sha256": digest}
    return any(identity.items() <= row.items() and row["episodes"] >= episodes for row in rows)


def _place_of(task: str) -> int:
    return TASKS.index(task) if task in TASKS else len(TASKS)


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Rows of one question stand together, whatever was played first."""
    trouble = (row["model"], row["trouble"], row["weights"], row["lag"], row["refused"], row["remember"])
    plain = trouble == ("trained", "none", "bf16", 0, 0.0, False)
    policies = ("oracle", DEFAULT)
    place = policies.index(row["policy"]) if row["policy"] in policies else len(policies)
    delay = 0 if row["delay"] in (0, delay_of(row["slots"])) else -row["delay"]
    same = (row["policy"], *map(str, trouble), -row["repeats"])
    return (
        row["slots"],
        row["decoding"] != "parallel",
        not plain,
        _place_of(row["task"]),
        delay,
        place,
        *same,
    )


if __name__ == "__main__":
    main()
