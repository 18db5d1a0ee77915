# SPDX-License-Identifier: Apache-2.0
"""Is the planner right about sizes that it was not fitted on? Three sizes in three formats, measured.

The kernels of all cases are compiled first, on all cores at once. Random weights are made on the device. Each
size and format is loaded, warmed up, timed as ``kernels.chunk`` times it (the device's events for prefill and
steps; a clock around a chunk, whose last token has arrived on the host), and given back before the next one.
One that fails leaves a row with its error. The file is written after each, so that a run which is cut short
keeps what it has.

Run ``python -m vla_edge_ros.bench.kernels.planner_validation --json
docs/benchmarks/planner-validation-h200.json``. No case begins that would probably end after ``--seconds``,
150 by default; what is left out is said in its row.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cupy

from vla_edge_ros.bench.kernels.chunk import chunk_row, flat, measure_engine
from vla_edge_ros.bench.report import command, print_table, write_json
from vla_edge_ros.console import console_program
from vla_edge_ros.engines.cuda.engine import CudaEngine
from vla_edge_ros.engines.cuda.load import nvrtc
from vla_edge_ros.engines.cuda.load.device import current_device
from vla_edge_ros.engines.cuda.load.kernels import loading_sources, pass_sources
from vla_edge_ros.engines.cuda.load.memory import MB
from vla_edge_ros.engines.cuda.plan.device_sizes import Device
from vla_edge_ros.engines.cuda.plan.planner import plan
from vla_edge_ros.engines.failures import one_line
from vla_edge_ros.errors import EngineError
from vla_edge_ros.model.random_weights import RandomWeights
from vla_edge_ros.planner.estimate import FITTED_SLOTS, plan_config
from vla_edge_ros.planner.models import SIZES
from vla_edge_ros.planner.predictions import FORMATS, MODELS

SEED = 0
REPEATS = 100

Case = tuple[str, str]  # a model of the planner's, a format
Row = dict[str, Any]
Source = tuple[str, dict[str, str | int]]  # a kernel file and its macros


def sources(cases: list[Case], device: Device) -> Iterator[Source]:
    """What the cases' engines compile; a case that the plan refuses has none, and says so as it is loaded."""
    yield from ((file, macros) for file, _, macros in loading_sources())
    for model, weights in cases:
        try:
            sizes = plan(SIZES[model], plan_config(weights), device)
        except EngineError:
            continue
        for name in sizes.passes:
            yield from ((file, macros) for file, _, macros in pass_sources(sizes, name))


def compile_all(cases: list[Case]) -> None:
    """Fill the kernels' cache. What does not compile is an error of the case that loads it, not here."""
    device = current_device()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for file, macros in sources(cases, device):
            pool.submit(nvrtc.compile_kernels, file, device.architecture, macros)


def measure(model: str, weights: str, repeats: int) -> Row:
    """Load one size in one format, time it, give its memory back."""
    config = plan_config(weights)
    engine = CudaEngine(config, RandomWeights(SIZES[model], SEED))
    begin = time.perf_counter()
    try:
        engine.load()
        start_s = time.perf_counter() - begin
        frames = (FITTED_SLOTS - config.cache.page_slots) // config.frame.tokens
        times = measure_engine(engine, frames, repeats, SEED)["none"]
        slots = config.cache.page_slots + frames * config.frame.tokens
        row = chunk_row("vla_edge_ros", weights, config.action.head, "off", slots, times)
        row["model"], row["kv"] = model, config.engine.kv
        row["decode_step"] = engine.steps.kind
        row["pool_mb"] = engine.buffers.taken_bytes / MB
        row["device_peak_mb"] = engine.memory().peak_bytes / MB
        row["start_s"] = start_s
        return row
    finally:
        engine.close()


def give_back() -> None:
    """What the device holds for no one; after a failure too, whose traceback held the engine."""
    gc.collect()
    cupy.get_default_memory_pool().free_all_blocks()
    cupy.get_default_pinned_memory_pool().free_all_blocks()


def validate(
    cases: list[Case],
    repeats: int,
    seconds: float,
    measure_one: Callable[[str, str, int], Row],
    after_each: Callable[[list[Row]], None],
    clock: Callable[[], float] = time.monotonic,
) -> list[Row]:
    """A row a case: its times, or why there are none as ``error``. ``after_each`` takes the rows so far.

    No case begins that would end after ``seconds`` if it took as long as the longest one before it.
    """
    rows: list[Row] = []
    begin, longest = clock(), 0.0
    for model, weights in cases:
        started = clock()
        if started - begin + longest > seconds:
            row: Row = {"error": f"left out: {started - begin:.0f} of {seconds:.0f} s were over"}
        else:
            try:
                row = measure_one(model, weights, repeats)
            except Exception as error:  # whatever one size does, the others are measured
                row = {"error": one_line(error)}
            longest = max(longest, clock() - started)
        rows.append({"model": model, "weights": weights, **row})
        after_each(rows)
    return rows


@console_program
def main(arguments: list[str] | None = None) -> int:
    """0 where every case was measured, else 1."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(MODELS), help="of the planner's, comma-separated")
    parser.add_argument("--weights", default=",".join(FORMATS), help="formats, comma-separated")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="chunks a size and format")
    parser.add_argument("--seconds", type=float, default=150.0, help="the compiler's included")
    parser.add_argument("--json", default="", help="write the rows here, after each")
    chosen = parser.parse_args(arguments)
    models, formats = chosen.models.split(","), chosen.weights.split(",")
    if not set(models) <= set(SIZES):
        parser.error(f"--models: expected some of {','.join(SIZES)}, got {chosen.models}")
    if not set(formats) <= set(FORMATS):
        parser.error(f"--weights: expected some of {','.join(FORMATS)}, got {chosen.weights}")
    if chosen.repeats < 1:
        parser.error(f"--repeats: expected at least 1, got {chosen.repeats}")

    def keep(rows: list[Row]) -> None:
        give_back()
        print_table([flat(rows[-1])])
        if chosen.json:
            write_json(chosen.json, command("kernels.planner_validation", arguments), rows)

    cases = [(model, weights) for model in models for weights in formats]
    begin = time.monotonic()
    try:
        compile_all(cases)
    except EngineError as error:  # no device
        parser.exit(1, f"planner_validation: {error}\n")
    compile_s = time.monotonic() - begin
    print(f"compiled in {compile_s:.0f} s")
    rows = validate(cases, chosen.repeats, chosen.seconds - compile_s, measure, keep)
    print_table([flat(row) for row in rows])
    return 1 if any("error" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
