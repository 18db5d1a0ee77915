# SPDX-License-Identifier: Apache-2.0
"""Chunks for minutes or hours on one GPU: no hang, no token and no bit that ever differs.

``python -m vla_edge_ros.bench.kernels.chunk_soak --minutes 60 [--weights int8] [--kv int8] [--json PATH]``

A few frames over a full cache are visited in random order, each time with another draft: none, the right one,
one with another token at a random place, a random one. Tokens, the last logits and the keys and values of the
frame and the action, of all layers, must be those of the first visit, bit for bit.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from typing import Any

import numpy as np

from vla_edge_ros.bench.kernels import inspection
from vla_edge_ros.bench.report import command, machine, print_table, quantiles, write_json
from vla_edge_ros.config import EngineConfig, VlaConfig
from vla_edge_ros.console import console_program
from vla_edge_ros.engines.cuda.engine import CudaEngine
from vla_edge_ros.types import CacheView

FRAMES = 16
ACTION_TOKENS = 8
CHECK_EVERY = 10  # chunks between two looks at the cache's bits, which take about as long as a chunk


def drafts_of(rng: np.random.Generator, tokens: tuple[int, ...], ids: np.ndarray) -> dict[str, list[int]]:
    """Each kind of draft for an action that is ``tokens``."""
    one_wrong = list(tokens)
    one_wrong[rng.integers(len(tokens))] = int(rng.choice(ids))
    return {
        "none": [],
        "right": list(tokens),
        "one_wrong": one_wrong,
        "random": rng.choice(ids, len(tokens)).tolist(),
    }


def bits_of(engine: CudaEngine, view: CacheView) -> bytes:
    """Keys and values of the frame's page and of the action's page."""
    return b"".join(inspection.kept_bytes(engine, page) for page in (int(view.pages[-1]), view.action_page))


def soak(engine: CudaEngine, minutes: float, seed: int, least_chunks: int = 0) -> dict[str, Any]:
    """Run for ``minutes`` and ``least_chunks``; ``AssertionError`` where a visit differs from the first."""
    rng, sizes = np.random.default_rng(seed), engine.sizes
    width, height, _ = sizes.frame
    frames = rng.integers(0, 256, (FRAMES, height, width, 3), np.uint8)
    pages = np.arange(1, sizes.pages, dtype=np.int32)
    view = CacheView(pages, np.full(len(pages), sizes.frame_tokens, np.int32), action_page=0)
    ids = np.arange(sizes.head_first, sizes.head_first + sizes.head_rows)
    for count in range(1, len(pages)):
        engine.embed_frame(frames[count % FRAMES])
        engine.prefill(CacheView(pages[:count], view.fills[:count], action_page=0))

    def chunk(frame: int, draft: list[int]) -> tuple[tuple[int, ...], int]:
        engine.embed_frame(frames[frame])
        engine.prefill(view, draft)
        decoded = engine.decode(view, ACTION_TOKENS, lambda _: False)
        return decoded.tokens, 1 + len(decoded.step_ms)

    first = []
    for frame in range(FRAMES):
        tokens, _ = chunk(frame, [])
        first.append((tokens, bits_of(engine, view)))
    end_s = time.monotonic() + minutes * 60
    chunks, passes, times_ms = 0, Counter[str](), []
    while chunks < least_chunks or time.monotonic() < end_s:
        frame = int(rng.integers(FRAMES))
        expected, bits = first[frame]
        name, draft = list(drafts_of(rng, expected, ids).items())[int(rng.integers(4))]
        begin = time.perf_counter()
        tokens, count = chunk(frame, draft)
        times_ms.append((time.perf_counter() - begin) * 1e3)
        passes[f"{name} {count}"] += 1
        chunks += 1
        assert tokens == expected, f"chunk {chunks}, draft {name}: {tokens}, at first {expected}"
        if chunks % CHECK_EVERY == 0:
            assert bits_of(engine, view) == bits, f"chunk {chunks}, draft {name}: the cache's bits differ"
    return {
        "minutes": minutes,
        "chunks": chunks,
        "caches_compared": chunks // CHECK_EVERY,
        "differences": 0,
        "chunk_ms": quantiles(times_ms),
        "draft_and_passes": dict(sorted(passes.items())),
    }


@console_program
def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--weights", default="bf16")
    parser.add_argument("--kv", default="bf16")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", default="")
    chosen = parser.parse_args(arguments)
    config = EngineConfig(weights=chosen.weights, kv=chosen.kv, draft="last_action")
    engine = CudaEngine(VlaConfig(engine=config))
    engine.load()
    row = {"weights": config.weights, "kv": config.kv, **soak(engine, chosen.minutes, chosen.seed)}
    engine.close()
    print(machine())
    print_table([{"what": key, "value": value} for key, value in row.items()])
    if chosen.json:
        write_json(chosen.json, command("kernels.chunk_soak", arguments), [row])


if __name__ == "__main__":
    main()
