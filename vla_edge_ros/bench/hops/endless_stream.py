# SPDX-License-Identifier: Apache-2.0
"""A stream without end: bookkeeping over a million frames, real chunks over thousands, and their times.

``python -m vla_edge_ros.bench.hops.endless_stream [--frames 1000000] [--chunks 4000] [--json PATH]
[--plot PATH]`` checks on the way what must hold for ever (positions bounded, each page with one holder, kept
keys and values untouched) and fails if it does not; then prints how the time a cycle and the memory went.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.bench.process_memory import resident_mb
from vla_edge_ros.bench.report import command, machine, print_table, write_json
from vla_edge_ros.config import CacheConfig, EngineConfig, ModelSource, VlaConfig
from vla_edge_ros.console import console_program
from vla_edge_ros.engines.numpy_engine import NumpyEngine
from vla_edge_ros.kv_cache.cache import KvCache
from vla_edge_ros.kv_cache.descriptor import describe
from vla_edge_ros.kv_cache.eviction import make_policy
from vla_edge_ros.model.decoder_config import resolve
from vla_edge_ros.model.weights import open_weights
from vla_edge_ros.types import NS_PER_MS, CacheView

BINS = 50  # points of the curve of time a cycle
PROMPT_TOKENS = 20
FRAME_NS = 16_666_667


def make_cache(config: VlaConfig) -> KvCache:
    """An empty cache with a pinned prompt, as the reasoner makes it."""
    cache = KvCache.for_model(config, make_policy(config.cache), resolve(config.model).hidden_size)
    cache.set_prompt(PROMPT_TOKENS)
    return cache


def check_view(view: CacheView, config: VlaConfig) -> None:
    """Positions bounded by the number of slots, and no page in two places."""
    highest_position = view.slots_in_use + config.action.tokens - 1
    assert highest_position < config.cache.capacity_slots + config.action.tokens, highest_position
    assert len(set(view.pages.tolist()) | {view.action_page}) == len(view.pages) + 1


def keep_books(config: VlaConfig, frames: int) -> list[dict[str, float]]:
    """Begin and commit ``frames`` chunks; a row for each of ``BINS`` stretches of the stream."""
    cache = make_cache(config)
    size = cache.memory.descriptor_size
    # A scene that wanders: neighbours alike, no two the same; a period that shares nothing with the cache.
    walk = np.cumsum(np.random.default_rng(1).normal(size=(997, max(1, size))), axis=0).astype(np.float32)
    rows, sequence = [], 0
    for stretch in range(BINS):
        count = frames * (stretch + 1) // BINS - sequence
        start_ns = time.perf_counter_ns()
        for _ in range(count):
            sequence += 1
            with cache.begin(sequence, sequence * FRAME_NS) as chunk:
                chunk.commit(walk[sequence % len(walk)] if size else None)
        spent_us = (time.perf_counter_ns() - start_ns) / 1000
        check_view(cache.view(cache.incoming_block), config)
        assert len(cache.memory) == min(sequence, cache.room)
        rows.append({"frames": sequence, "us_a_frame": spent_us / count, "resident_mb": resident_mb()})
    return rows


class RealStream:
    """Chunks through a tiny model and a full cache, with the stored keys and values watched."""

    def __init__(self, config: VlaConfig):
        self.config = config
        config = replace(config, engine=EngineConfig(name="numpy"))
        self.engine = NumpyEngine(config, open_weights(config.model))
        self.engine.load()
        self.cache = make_cache(config)
        self.engine.write_prompt(np.arange(PROMPT_TOKENS), range(config.prompt.max_pages))
        self.evictions = 0
        self._policy = make_policy(config.cache)
        self._seen: dict[int, str] = {}  # block -> fingerprint of what was written when its frame was kept

    def picture(self, sequence: int) -> NDArray[np.uint8]:
        """A gradient that drifts, with noise of its own."""
        frame = self.config.frame
        x, y = np.meshgrid(np.arange(frame.width), np.arange(frame.height))
        noise = np.random.default_rng(sequence).integers(0, 12, (frame.height, frame.width, 3))
        base = 110 + 100 * np.sin((x + 3 * y + sequence) / 17.0)
        return (base[..., None] + noise).astype(np.uint8)

    def chunk(self, sequence: int, tokens: int = 8) -> CacheView:
        """One whole chunk with ``tokens`` action tokens; returns what it saw."""
        pixels = self.picture(sequence)
        with self.cache.begin(sequence, sequence * FRAME_NS) as chunk:
            vision = self.engine.embed_frame(pixels)
            self.engine.prefill(chunk.view)
            self.engine.decode(chunk.view, tokens, lambda _: False)
            self._seen[chunk.block] = self.fingerprint(chunk.block)
            evicted = chunk.commit(describe(self._policy.descriptor, pixels, vision.embedding))
        self.evictions += evicted is not None
        return chunk.view

    def fingerprint(self, block: int) -> str:
        pages = self.cache.pages_of([block])
        return hashlib.sha256(self.engine.decoder.kv[:, pages].tobytes()).hexdigest()

    def check_kept_pages(self) -> None:
        """Every kept page holds, to the bit, what was written when its frame came."""
        for block in self.cache.memory.blocks.tolist():
            assert self.fingerprint(block) == self._seen[block], block


def run_chunks(config: VlaConfig, chunks: int) -> list[dict[str, float]]:
    """``chunks`` real chunks; a row for each of ``BINS`` stretches."""
    stream, rows, sequence = RealStream(config), [], 0
    for stretch in range(BINS):
        end = chunks * (stretch + 1) // BINS
        spent_ms = []
        while sequence < end:
            sequence += 1
            start_ns = time.perf_counter_ns()
            view = stream.chunk(sequence)
            spent_ms.append((time.perf_counter_ns() - start_ns) / NS_PER_MS)
            check_view(view, config)
        stream.check_kept_pages()
        rows.append(
            {"frames": sequence, "ms_a_chunk": float(np.median(spent_ms)), "resident_mb": resident_mb()}
        )
    return rows


def plot(path: str, books: list[dict[str, float]], chunks: list[dict[str, float]]) -> None:
    """Time a cycle against frames seen: flat, if nothing grows."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3))
    for axis, rows, key, what in (
        (axes[0], books, "us_a_frame", "bookkeeping, µs a frame"),
        (axes[1], chunks, "ms_a_chunk", "tiny model, ms a chunk"),
    ):
        axis.plot([row["frames"] for row in rows], [row[key] for row in rows])
        axis.set(xlabel="frames seen", ylabel=what)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    figure.tight_layout()
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


def summary(what: str, key: str, rows: list[dict[str, float]]) -> dict[str, Any]:
    """First and last tenth of the curve beside each other, the filling of the cache left out."""
    values = [row[key] for row in rows]
    tenth = max(1, BINS // 10)
    return {
        "what": what,
        "frames": rows[-1]["frames"],
        f"{key}_early": float(np.median(values[tenth : 2 * tenth])),
        f"{key}_late": float(np.median(values[-tenth:])),
        "resident_mb_early": rows[tenth]["resident_mb"],
        "resident_mb_late": rows[-1]["resident_mb"],
    }


@console_program
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--chunks", type=int, default=4_000)
    parser.add_argument("--json", default="")
    parser.add_argument("--plot", default="")
    options = parser.parse_args()
    tiny = VlaConfig(model=ModelSource(preset="tiny"))
    books = keep_books(tiny, options.frames)
    chunks = run_chunks(replace(tiny, cache=CacheConfig(capacity_slots=1024)), options.chunks)
    rows = [summary("bookkeeping", "us_a_frame", books), summary("tiny model", "ms_a_chunk", chunks)]
    print(machine())
    for row in rows:
        print_table([row])
    if options.plot:
        plot(options.plot, books, chunks)
    if options.json:
        write_json(options.json, command("hops.endless_stream"), rows)


if __name__ == "__main__":
    main()
