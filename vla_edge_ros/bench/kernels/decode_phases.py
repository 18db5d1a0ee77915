# SPDX-License-Identifier: Apache-2.0
"""Where a persistent decode step's time goes: cycles from point to point of a layer, over blocks and layers.

``python -m vla_edge_ros.bench.kernels.decode_phases [--weights bf16,int8,int4] [--json PATH]``

The kernel is built once more with clocks in it (``phase_clock.cuh``), which make a step 1 to 2 % slower.
Blocks that attend are reported apart from the others, which wait for them.
"""

from __future__ import annotations

import argparse
from contextlib import closing
from dataclasses import replace
from typing import Any

import cupy
import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.bench.report import command, machine, print_table, write_json
from vla_edge_ros.config import VlaConfig
from vla_edge_ros.console import console_program
from vla_edge_ros.engines.cuda.engine import CudaEngine
from vla_edge_ros.engines.cuda.load.kernels import load_kernels, persistent_source
from vla_edge_ros.engines.cuda.plan.chunk_state import LiveRows, write_state
from vla_edge_ros.engines.cuda.run.graphs import TimedGraph, copy_to_device
from vla_edge_ros.engines.cuda.run.passes import Pass
from vla_edge_ros.errors import EngineError

STEPS, WARM_UP_STEPS = 20, 3
# PhasePoint of phase_clock.cuh: what has been done since the point before.
POINTS = (
    "layer begun", "barrier: down", "norm before QKV", "QKV multiplied", "QKV stored", "barrier: QKV",
    "queries loaded", "scores", "values", "key warps merged", "barrier: attention", "splits merged",
    "output multiplied", "output stored", "barrier: output", "norm before gate/up", "gate/up multiplied",
    "gate/up stored", "barrier: gate/up", "down multiplied", "down stored",
)  # fmt: skip


def phase_rows(cycles: NDArray[np.int64], attending: NDArray[np.bool_]) -> list[dict[str, Any]]:
    """Median and 95th percentile of the cycles that each point took.

    ``cycles`` ``[step, block, layer, point]``, 0 where a block does not come by; ``attending`` ``[block]``.
    First and last layer are left out: the rings are not full at either end.
    """
    inner = cycles[:, :, 1:-1].astype(np.float64)
    inner[inner == 0] = np.nan
    rows = []
    for kind, chosen in (("attending", attending), ("others", ~attending)):
        of_kind = inner[:, chosen]
        before = of_kind[..., 0]
        for index, name in enumerate(POINTS[1:], start=1):
            now = of_kind[..., index]
            spent = now - before
            before = np.where(np.isnan(now), before, now)
            if not np.isfinite(spent).any():
                continue
            median, high = np.nanquantile(spent, [0.5, 0.95])
            rows.append({"blocks": kind, "until": name, "cycles": round(median), "cycles_p95": round(high)})
        layer = np.nanmedian(np.diff(of_kind[..., 0], axis=2)) if of_kind.shape[2] > 1 else 0.0
        rows.append({"blocks": kind, "until": "next layer", "cycles": round(float(layer))})
    return rows


def measure(config: VlaConfig) -> list[dict[str, Any]]:
    """Over a full page list in no order; one row a point."""
    with closing(CudaEngine(config)) as engine:
        engine.load()
        return _measure(engine)


def _measure(engine: CudaEngine) -> list[dict[str, Any]]:
    sizes, plan = engine.sizes, engine.sizes.persistent
    if plan is None:
        raise EngineError("expected a device on which a decode step is one kernel (engine.decode_step)")
    file, names, macros = persistent_source(sizes)
    timed = load_kernels([(file, names, {**macros, "PHASE_TIMES": 1})], sizes.device, overlap=True)
    kernels = {**engine.kernels, "decode": {**engine.kernels["decode"], **timed}}
    outs = engine.host.addresses_out
    decode = Pass("decode", sizes, kernels, engine.buffers, *outs)
    times = cupy.zeros((plan.blocks, sizes.decoder.num_hidden_layers, len(POINTS)), np.uint64)
    host = (engine.steps.cancelled.ctypes.data, engine.steps.stop_asked.ctypes.data)
    first = engine.buffers["next_token"]
    graph = TimedGraph(
        engine.stream, lambda: decode.launch_persistent(engine.stream.ptr, first, *host, times.data.ptr)
    )
    state, slots = engine.host.states["decode"], sizes.page_slots
    pages = np.random.default_rng(0).permutation(sizes.pages)
    fills = np.full(sizes.pages, slots)
    fills[-1] = 1
    samples, step_ms = [], []
    for _ in range(WARM_UP_STEPS + STEPS):
        write_state(state, pages, fills, slots, action=LiveRows(1))
        copy_to_device(engine.stream.ptr, engine.buffers["decode_state"], state)
        step_ms.append(graph.run())
        samples.append(times.get().astype(np.int64))
    shares = sizes.decode.attention.action_splits * sizes.decoder.num_key_value_heads
    attending = np.arange(plan.blocks) >= plan.blocks - shares
    rows = phase_rows(np.array(samples[WARM_UP_STEPS:]), attending)
    step = {"weights": sizes.weights.name, "step_ms": float(np.median(step_ms[WARM_UP_STEPS:]))}
    return [{**step, **row} for row in rows]


@console_program
def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", default="bf16", help="formats, comma-separated")
    parser.add_argument("--json", default="")
    chosen = parser.parse_args(arguments)
    config = VlaConfig()
    rows = []
    for weights in chosen.weights.split(","):
        rows += measure(replace(config, engine=replace(config.engine, weights=weights)))
    print(machine())
    print_table(rows)
    if chosen.json:
        write_json(chosen.json, command("kernels.decode_phases", arguments), rows)


if __name__ == "__main__":
    main()
