# SPDX-License-Identifier: Apache-2.0
"""Before the first cycle: run the full path at several cache fills, for its times and to have run it.

The first chunk of a process is its slowest (contexts, lazy modules, first allocations: seconds), so it must
neither meet a deadline nor be learned from (fault A13).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

import numpy as np

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.engines.base import Engine
from vla_edge_ros.model.decoder_config import resolve
from vla_edge_ros.model.memory_traffic import bytes_a_chunk
from vla_edge_ros.sequence import SequenceLayout
from vla_edge_ros.types import CacheView, ChunkTimes

MEASURED = 8  # chunks a fill; fewer where the engine is slow
SECONDS_A_FILL = 2.0  # a 1.5 B model on a CPU takes seconds a chunk; one measured chunk a fill must do then


def measure_chunks(config: VlaConfig, engine: Engine) -> list[ChunkTimes]:
    """Measured whole chunks with an empty, a half full and a full cache of frames.

    Where the engine uses drafts, chunks with one too: all of its draft tokens wrong, which takes longest.
    Overwrites every page: call it before the prompt is written and while no frame is kept.
    """
    frame, layout = config.frame, config.layout
    pixels = np.random.default_rng(0).integers(0, 256, (frame.height, frame.width, 3), dtype=np.uint8)
    samples: list[ChunkTimes] = []
    drafts = config.engine.draft != "none"  # after the first fill: and the engine uses them
    most = (config.cache.pages - layout.transient_pages) // layout.frame_pages
    if layout.most_frames is not None:
        most = min(most, layout.most_frames + 1)
    for frames in sorted({1, max(1, most // 2), most}):
        view = _view_of(layout, frames)

        def chunk(draft: Sequence[int] = (), view: CacheView = view) -> tuple[ChunkTimes, tuple[int, ...]]:
            return _run_chunk(config, engine, pixels, view, draft)

        first, tokens = chunk()  # the first of its kind is not measured
        samples += _measured(chunk)
        drafts = drafts and len(chunk(tokens)[0].decode_ms) < len(first.decode_ms)
        if drafts:
            wrong = [token - 1 if token > 0 else 1 for token in tokens]
            samples += _measured(partial(chunk, wrong))
    return samples


def _view_of(layout: SequenceLayout, frames: int) -> CacheView:
    """``frames`` in all, in pages behind the transient ones, and no prompt."""
    pages = np.arange(frames * layout.frame_pages, dtype=np.int32) + layout.transient_pages
    fills = np.tile(layout.frame_fills, frames)
    return CacheView(pages, fills, 0, layout.frame_pages, tuple(range(1, layout.transient_pages)))


def _measured(chunk: Callable[[], tuple[ChunkTimes, tuple[int, ...]]]) -> list[ChunkTimes]:
    samples, end_s = [], time.monotonic() + SECONDS_A_FILL
    for _ in range(MEASURED):
        samples.append(chunk()[0])
        if time.monotonic() > end_s:
            break
    return samples


def over_budget(config: VlaConfig, samples: Sequence[ChunkTimes]) -> str:
    """A warning where this device cannot keep the deadline with a full cache, whoever decides; else empty.

    ``samples``: of ``measure_chunks``. Such a node runs, but most of its cycles fall back (fault A24).
    """
    budget_ms = config.timing.deadline_ms - config.timing.margin_ms
    plain = [times for times in samples if not times.drafted]
    fullest = max(times.slots_in_use for times in plain)
    chunk_ms = median(times.total_ms for times in plain if times.slots_in_use == fullest)
    if chunk_ms <= budget_ms:
        return ""
    gb = bytes_a_chunk(resolve(config.model), config) / 1e9
    return (
        f"a chunk takes {chunk_ms:.1f} ms with a full cache, {budget_ms:.1f} ms are there "
        f"(timing.deadline_ms less margin_ms): most cycles will fall back. With engine.weights "
        f"{config.engine.weights} a chunk reads {gb:.2f} GB, which in this time takes a memory of "
        f"{1000 * gb / budget_ms:.0f} GB/s"
    )


def _run_chunk(
    config: VlaConfig, engine: Engine, pixels: np.ndarray, view: CacheView, draft: Sequence[int]
) -> tuple[ChunkTimes, tuple[int, ...]]:
    vision = engine.embed_frame(pixels)
    suffix = (1,) * config.layout.suffix_tokens  # the longest one
    prefill_ms = engine.prefill(view, draft, suffix)
    decoded = engine.decode(view, config.action.tokens, lambda _: False)
    times = ChunkTimes(
        view.slots_in_use, vision.vision_ms, prefill_ms, decoded.step_ms, completed=True, drafted=bool(draft)
    )
    return times, decoded.tokens
