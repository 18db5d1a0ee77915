# SPDX-License-Identifier: Apache-2.0
"""One chunk on the GPU, side by side: this engine, and PyTorch in the forms people run it in.

All take the same sizes, the same number of cached slots and the same tokens: one prefill of the frame's
vision tokens, then 7 decode steps. This engine also with a draft of the action's tokens: one that is
accepted, which takes the prefill alone, and one that is rejected throughout. Times of prefill and decode
steps are the device's (events); a chunk's is the wall clock from its first call to its last token on the
host. In parallel decoding the prefill carries the action's queries and is the whole chunk. Weights are seeded
random: speed does not depend on their values.

Run ``python -m vla_edge_ros.bench.kernels.chunk --weights bf16,int8,int4 --drafts none,last_action
--decode-steps auto,kernels --peers --json docs/benchmarks/chunk-h200.json``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import cupy
import numpy as np

from vla_edge_ros.bench.kernels.kernel_times import kernel_rows
from vla_edge_ros.bench.report import command, print_table, quantiles, write_json
from vla_edge_ros.config import VlaConfig
from vla_edge_ros.console import console_program
from vla_edge_ros.engines.cuda.engine import CudaEngine
from vla_edge_ros.engines.cuda.load.memory import MB
from vla_edge_ros.engines.cuda.plan.projection_tiling import GEMM_THREADS, TILE_K
from vla_edge_ros.engines.cuda.plan.weight_buffers import layer_offsets, pass_bytes
from vla_edge_ros.engines.cuda.plan.weight_format import FORMATS, TILE_BYTES
from vla_edge_ros.types import CacheView

WARM_UP_CHUNKS = 10
STREAM_SHARED_BYTES = 8 * 4 * 6 * TILE_BYTES
STREAM_REPEATS = 20
TIMES = ("vision_ms", "prefill_ms", "decode_step_ms", "chunk_ms", "frame_to_action_ms")

Row = dict[str, Any]


def chunk_row(
    engine: str, weights: str, head: str, draft: str, slots: int, times: dict[str, list[float]]
) -> Row:
    """Median, p99 and maximum of each list of milliseconds, under the names that the results page reads."""
    return {
        "engine": engine,
        "weights": weights,
        "head": head,
        "draft": draft,
        "slots_used": slots,
        **{name: quantiles(samples) for name, samples in times.items() if samples},
    }


def takes_drafts(engine: CudaEngine) -> bool:
    """Whether it is planned with room for drafts. In parallel decoding that room is the queries'."""
    return bool(engine.sizes.draft_tokens) and not engine.sizes.has_queries


def measure_engine(
    engine: CudaEngine, frames: int, repeats: int, seed: int
) -> dict[str, dict[str, list[float]]]:
    """Fill ``frames`` pages with frames, then run chunks whose new frame goes to the last of them.

    Times by draft, ``none``, ``accepted`` and ``rejected``, interleaved on the same frames; raises where a
    draft changes a token.
    """
    rng = np.random.default_rng(seed)
    width, height, _ = engine.sizes.frame
    shape, frame_tokens = (height, width, 3), engine.sizes.frame_tokens
    engine.write_prompt(rng.integers(0, engine.sizes.decoder.vocab_size, engine.sizes.page_slots), [0])
    order = (1 + rng.permutation(engine.sizes.pages - 2)).astype(np.int32)
    action_page = engine.sizes.pages - 1

    def view_of(count: int) -> CacheView:
        pages = np.concatenate([[0], order[:count]]).astype(np.int32)
        fills = np.full(count + 1, frame_tokens, np.int32)
        fills[0] = engine.sizes.page_slots
        return CacheView(pages, fills, action_page)

    for count in range(1, frames):
        engine.embed_frame(rng.integers(0, 256, shape, np.uint8))
        engine.prefill(view_of(count))
    drafts = ("none", "accepted", "rejected") if takes_drafts(engine) else ("none",)
    times: dict[str, dict[str, list[float]]] = {draft: {name: [] for name in TIMES} for draft in drafts}
    view = view_of(frames)
    tokens: tuple[int, ...] = ()
    for repeat in range(WARM_UP_CHUNKS + repeats):
        pixels = rng.integers(0, 256, shape, np.uint8)
        for name in drafts:
            draft = {"none": (), "accepted": tokens, "rejected": _all_rejected(engine, tokens)}[name]
            begin = time.perf_counter()
            vision_ms = engine.embed_frame(pixels).vision_ms
            embedded = time.perf_counter()
            prefill_ms = engine.prefill(view, draft)
            decoded = engine.decode(view, 8, lambda _: False)
            end = time.perf_counter()
            if draft and decoded.tokens != tokens:
                raise AssertionError(f"{decoded.tokens} with a draft, {tokens} without")
            tokens = decoded.tokens
            if repeat < WARM_UP_CHUNKS:
                continue
            into = times[name]
            into["vision_ms"].append(vision_ms)
            into["prefill_ms"].append(prefill_ms)
            into["decode_step_ms"].extend(decoded.step_ms)
            into["chunk_ms"].append((end - embedded) * 1e3)
            into["frame_to_action_ms"].append((end - begin) * 1e3)
    return times


def _all_rejected(engine: CudaEngine, tokens: tuple[int, ...]) -> tuple[int, ...]:
    first, rows = engine.sizes.head_first, engine.sizes.head_rows
    return tuple(first + (token - first + 1) % rows for token in tokens)


def streaming_read(engine: CudaEngine) -> float:
    """Bytes a second of reading all gate and up weights once, front to back, with the engine's own copies."""
    sizes, stream = engine.sizes, cupy.cuda.Stream(non_blocking=True)
    layers, size = sizes.decoder.num_hidden_layers, layer_offsets(sizes).gate_up
    k_tiles = sizes.decoder.hidden_size // TILE_K
    row_tiles = layers * size // (k_tiles * TILE_BYTES)  # whatever the bytes mean
    read = row_tiles * k_tiles * TILE_BYTES
    sink = engine.buffers["status"]
    kernel = engine.kernels["loading"]["stream_read"]
    fastest = 0.0
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    for blocks in (1, 2):
        grid = (blocks * sizes.device.multiprocessors, 1, 1)
        for _ in range(STREAM_REPEATS):
            begin.record(stream)
            kernel.launch(
                stream.ptr, grid, GEMM_THREADS, STREAM_SHARED_BYTES, sink, engine.buffers["gate_up"],
                row_tiles, k_tiles,
            )  # fmt: skip
            end.record(stream)
            end.synchronize()
            fastest = max(fastest, read / cupy.cuda.get_elapsed_time(begin, end) * 1e3)
    return fastest


def run_engine(config: VlaConfig, frames: int, repeats: int) -> list[Row]:
    engine = CudaEngine(config)
    begin = time.perf_counter()
    engine.load()
    start_s = time.perf_counter() - begin
    print(f"{config.engine.weights}: start-up {start_s:.2f} s on {engine.sizes.device.name}")
    times = measure_engine(engine, frames, repeats, config.model.seed)
    slots = engine.sizes.page_slots + frames * engine.sizes.frame_tokens
    off = {"none": "off"} if not takes_drafts(engine) else {}  # planned without drafts
    rows = [
        chunk_row(
            "vla_edge_ros", config.engine.weights, config.action.head, off.get(draft, draft), slots, measured
        )
        for draft, measured in times.items()
    ]
    for row in rows:
        row["decode_step"] = engine.steps.kind
        row["kv"] = config.engine.kv
        row["decoding"] = config.action.decoding
    row = rows[0]
    read, need = streaming_read(engine), pass_bytes(engine.sizes, slots)
    row["streaming_read_tb_s"] = read / 1e12
    if "decode_step_ms" in row:  # in parallel decoding the prefill is all
        step_ms = row["decode_step_ms"]["median"]
        row["decode_tb_s"] = need / step_ms / 1e9
        row["decode_share_of_streaming_read"] = need / (step_ms * 1e-3) / read
    row["pool_mb"] = engine.buffers.taken_bytes / MB
    row["device_peak_mb"] = engine.memory().peak_bytes / MB
    kernels = kernel_rows(engine, slots, read)
    print_table(kernels)
    engine.close()
    return rows


def flat(row: Row) -> Row:
    """For the printed table: medians and p99 as columns of their own."""
    out: Row = {}
    for key, value in row.items():
        if isinstance(value, dict):
            out[key.replace("_ms", "")] = f"{value['median']:.3f} / {value['p99']:.3f} / {value['max']:.3f}"
        else:
            out[key] = value
    return out


@console_program
def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=124, help="frames in the cache; one prompt page beside")
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--weights", default="bf16", help="formats of the engine's rows, comma-separated")
    parser.add_argument("--kv", default="bf16", help="engine.kv of the engine's rows, comma-separated")
    parser.add_argument("--full-vocabulary", action="store_true", help="add a row with the whole head")
    parser.add_argument("--decode-steps", default="auto", help="engine.decode_step, comma-separated")
    parser.add_argument("--drafts", default="none", help="engine.draft of the engine's rows, comma-separated")
    parser.add_argument("--decodings", default="autoregressive", help="action.decoding, comma-separated")
    parser.add_argument("--peers", action="store_true", help="add the PyTorch rows")
    parser.add_argument("--json", default="", help="write the rows here")
    chosen = parser.parse_args(arguments)
    formats = chosen.weights.split(",")
    if not set(formats) <= set(FORMATS):
        parser.error(f"--weights: expected some of {','.join(FORMATS)}, got {chosen.weights}")
    config = VlaConfig()
    runs: list[Callable[[], list[Row]]] = []
    every = product(
        formats,
        chosen.kv.split(","),
        chosen.decodings.split(","),
        chosen.drafts.split(","),
        chosen.decode_steps.split(","),
    )
    for weights, kv, decoding, draft, step in every:
        made_of = replace(config.engine, weights=weights, kv=kv, draft=draft, decode_step=step)
        packed = replace(config, engine=made_of, action=replace(config.action, decoding=decoding))
        runs.append(partial(run_engine, packed, chosen.frames, chosen.repeats))
        if chosen.full_vocabulary:
            whole = replace(packed, action=replace(packed.action, head="full_vocabulary"))
            runs.append(partial(run_engine, whole, chosen.frames, chosen.repeats))
    if chosen.peers:
        from vla_edge_ros.bench.kernels.torch_peers import run_peers

        past = config.cache.page_slots + (chosen.frames - 1) * config.frame.tokens

        def peers() -> list[Row]:
            measured = run_peers(config, past, chosen.repeats)
            slots = past + config.frame.tokens
            return [
                chunk_row(name, "bf16", config.action.head, "none", slots, times) for name, times in measured
            ]

        runs.append(peers)
    rows = []
    for run in runs:
        rows += run()
        print_table([flat(row) for row in rows])
    if chosen.json:
        write_json(chosen.json, command("kernels.chunk", arguments), rows)


if __name__ == "__main__":
    main()
