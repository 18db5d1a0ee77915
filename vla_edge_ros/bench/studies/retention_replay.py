# SPDX-License-Identifier: Apache-2.0
"""Footage through the node's own memory and policies: what each keeps, and how well that stands for all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.bench.studies import retention_metrics as metrics
from vla_edge_ros.bench.studies.footage import Footage, with_glitches
from vla_edge_ros.config import CacheConfig
from vla_edge_ros.kv_cache.descriptor import cell_colours, thumbnail
from vla_edge_ros.kv_cache.eviction import POLICY_NAMES, EvictionPolicy, make_policy
from vla_edge_ros.kv_cache.frame_memory import FrameMemory
from vla_edge_ros.kv_cache.policies.semantic import Semantic

JOINED = "joined"
_SIZES = (126, 64, 32)
_SMALLEST_SIZE = 16  # for a clip too short for the others
_CHECKPOINTS = 4


class SemanticNewer(Semantic):
    """The seed's rule turned round: the newer half of the pair goes. Shows what that one choice does."""

    def choose(self, memory: FrameMemory) -> int:
        return min(super().choose(memory) + 1, len(memory) - 1)


@dataclass(frozen=True)
class Prepared:
    """A stream, what policies compare (``descriptors`` by kind), what referees measure (``[n, n]``)."""

    footage: Footage
    descriptors: dict[str, NDArray[np.float32]]
    colour: NDArray[np.float32]
    shape: NDArray[np.float32]


def prepare(footage: Footage) -> Prepared:
    return Prepared(
        footage,
        describe_all(footage),
        metrics.distances(metrics.colour_features(footage.pixels)),
        metrics.distances(metrics.gradient_features(footage.pixels)),
    )


def describe_all(footage: Footage) -> dict[str, NDArray[np.float32]]:
    """``thumbnail`` ``[n, 128]``, ``cells`` ``[n, 384]``, ``embedding`` ``[n, 768]``: the mean 16x16 patch.

    The engine projects the mean patch to its hidden size by a seeded random matrix, which keeps angles
    (Johnson and Lindenstrauss); leaving it out spares the benchmark a model.
    """
    n, height, width, _ = footage.pixels.shape
    patches = footage.pixels.reshape(n, height // 16, 16, width // 16, 16, 3)
    return {
        "thumbnail": np.stack([thumbnail(picture) for picture in footage.pixels]),
        "cells": np.stack([cell_colours(picture) for picture in footage.pixels]),
        "embedding": patches.mean((1, 3), dtype=np.float32).reshape(n, -1) / 127.5 - 1.0,
    }


def policies() -> dict[str, EvictionPolicy]:
    """Every registered policy with its default settings, and the seed's rule with the other half."""
    registered = {name: make_policy(CacheConfig(eviction=name)) for name in POLICY_NAMES}
    return {**registered, "semantic_newer": SemanticNewer()}


def replay(
    footage: Footage,
    descriptors: dict[str, NDArray[np.float32]],
    policy: EvictionPolicy,
    frames_kept: int,
    at: Iterable[int],
) -> dict[int, NDArray[np.int64]]:
    """Stream positions kept when ``at`` frames have been seen, by number of frames seen."""
    rows = descriptors.get(policy.descriptor)
    size = 0 if rows is None else rows.shape[1]
    memory = FrameMemory(frames_kept, size, policy.descriptor == "cells")
    wanted, kept = set(at), {}
    for position, stamp_ns in enumerate(footage.stamps_ns.tolist()):
        memory.append(position, stamp_ns, 0, None if rows is None else rows[position])
        if policy.excess(memory, frames_kept):
            memory.remove(policy.choose(memory))
        if position + 1 in wanted:
            kept[position + 1] = memory.sequences.copy()
    return kept


def sizes_for(frames: int) -> list[int]:
    """Cache sizes that have something to forget: at most half of the clip, or 16 frames for the shortest."""
    return [size for size in _SIZES if 2 * size <= frames] or [_SMALLEST_SIZE]


def checkpoints(frames: int, frames_kept: int) -> list[int]:
    """Four moments, evenly spread from when the cache is full to the end."""
    spread = frames - frames_kept
    return [frames_kept + spread * (i + 1) // _CHECKPOINTS for i in range(_CHECKPOINTS)]


def evaluate(stream: Prepared, name: str, policy: EvictionPolicy, frames_kept: int) -> dict[str, Any]:
    """One row: means over the checkpoints; distances in grey levels (``coverage_*``) and of shape."""
    footage = stream.footage
    moments = checkpoints(len(footage), frames_kept)
    kept_at = replay(footage, stream.descriptors, policy, frames_kept, moments)
    scores = []
    for seen, kept in kept_at.items():
        colour = metrics.coverage(stream.colour, kept, seen)
        shape = metrics.coverage(stream.shape, kept, seen)
        times_ns = footage.stamps_ns[:seen]
        scores.append(
            {
                "coverage_mean": colour.mean,
                "coverage_p95": colour.p95,
                "coverage_max": colour.max,
                "shape_mean": shape.mean,
                "shape_p95": shape.p95,
                "shape_max": shape.max,
                "largest_hole": metrics.largest_hole(times_ns, kept),
                "time_bins": metrics.time_bins_filled(times_ns, kept),
                "recent_kept": metrics.recent_kept(kept, seen),
                "scene_recall": metrics.scene_recall(footage.scenes[:seen], kept),
            }
        )
    means = {key: round(float(np.mean([score[key] for score in scores])), 4) for key in scores[0]}
    row = {"clip": footage.name, "policy": name, "frames_kept": frames_kept}
    return {**row, **means, "glitch_kept": glitches_kept(footage, policy, frames_kept)}


def glitches_kept(footage: Footage, policy: EvictionPolicy, frames_kept: int) -> int:
    """How many of three broken frames (noise, black, white) are still there at the end of the stream."""
    broken, places = with_glitches(footage)
    kept = replay(broken, describe_all(broken), policy, frames_kept, [len(broken)])[len(broken)]
    return int(np.isin(places, kept).sum())


def run(streams: Iterable[Prepared]) -> list[dict[str, Any]]:
    return [
        evaluate(stream, name, policy, size)
        for stream in streams
        for size in sizes_for(len(stream.footage))
        for name, policy in policies().items()
    ]


def default_data() -> Path:
    """``$VLA_EDGE_DATA/clips``, else the folder that lies beside the repository."""
    return Path(os.environ.get("VLA_EDGE_DATA") or "../shared/data") / "clips"
