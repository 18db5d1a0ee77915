# SPDX-License-Identifier: Apache-2.0
"""Attempts to beat ``bridge``, chosen on one half of the footage and judged on the other.

``python -m vla_edge_ros.bench.studies.retention_trials``. Rules are written over the full similarity matrix
of a stream, which a node does not have: this is where a rule is tried before it is worth a policy.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.bench.report import print_table
from vla_edge_ros.bench.studies import retention_metrics as metrics
from vla_edge_ros.bench.studies.footage import join, read_clips
from vla_edge_ros.bench.studies.retention_replay import (
    Prepared,
    checkpoints,
    default_data,
    prepare,
    sizes_for,
)
from vla_edge_ros.console import console_program

_PROTECT_LATEST = 8
_PIECE_FRAMES = 60
_JUDGED_BY = ("colour_mean", "colour_p95", "shape_mean", "shape_p95")

Index = NDArray[np.int64]
Real = NDArray[np.float64]
Rule = Callable[[Index, Real, Real], Real]
"""Kept ``[n]``, similarity ``[frames, frames]``, times ``[frames]`` to the cost of frames ``1 .. n - 2``."""


def time_thinning(kept: Index, similarity: Real, times: Real) -> Real:
    return times[kept[2:]] - times[kept[:-2]]


def bridge(still: float, power: float) -> Rule:
    def cost(kept: Index, similarity: Real, times: Real) -> Real:
        apart = np.maximum(1.0 - similarity[kept[:-2], kept[2:]], 0.0) ** power
        return (still + apart) * time_thinning(kept, similarity, times)

    return cost


def detour(still: float, power: float) -> Rule:
    """What the two gaps beside a frame already cost is taken off: only the loss counts."""

    def cost(kept: Index, similarity: Real, times: Real) -> Real:
        def gap(a: Index, b: Index) -> Real:
            return np.maximum(1.0 - similarity[a, b], 0.0) ** power * (times[b] - times[a])

        before, frame, after = kept[:-2], kept[1:-1], kept[2:]
        return (
            still * (times[after] - times[before])
            + gap(before, after)
            - gap(before, frame)
            - gap(frame, after)
        )

    return cost


def revisit(still: float, power: float) -> Rule:
    """A frame is also dispensable where any other kept frame, however old, shows the same."""

    def cost(kept: Index, similarity: Real, times: Real) -> Real:
        inner = np.arange(1, len(kept) - 1)
        elsewhere = similarity[np.ix_(kept[inner], kept)].copy()
        for neighbour in (-1, 0, 1):
            elsewhere[inner - 1, inner + neighbour] = -1.0
        best = np.maximum(elsewhere.max(axis=1), similarity[kept[:-2], kept[2:]])
        return (still + np.maximum(1.0 - best, 0.0) ** power) * time_thinning(kept, similarity, times)

    return cost


def adaptive(share: float, power: float) -> Rule:
    """The cost of a still scene follows what is typical in the memory at the moment."""

    def cost(kept: Index, similarity: Real, times: Real) -> Real:
        apart = np.maximum(1.0 - similarity[kept[:-2], kept[2:]], 0.0) ** power
        return (0.001 + share * apart.mean() + apart) * time_thinning(kept, similarity, times)

    return cost


def grid_descriptor(pixels: NDArray[np.uint8], blocks: tuple[int, int]) -> NDArray[np.float32]:
    """A 32x16 grey thumbnail ``[n, 512]``, zero-mean and contrast-normalised in each of ``blocks``."""
    n, height, width, _ = pixels.shape
    grey = pixels.mean(axis=3, dtype=np.float32).reshape(n, 16, height // 16, 32, width // 32).mean((2, 4))
    rows, columns = blocks
    cells = grey.reshape(n, rows, 16 // rows, columns, 32 // columns).transpose(0, 1, 3, 2, 4)
    cells = cells.reshape(n, rows * columns, -1)
    cells = cells - cells.mean(axis=2, keepdims=True)
    noise_floor = 5.0  # grey levels: flat blocks must not speak as loudly as textured ones
    return (cells / np.sqrt((cells**2).mean(axis=2, keepdims=True) + noise_floor**2)).reshape(n, -1)


TRIALS: dict[str, tuple[str, Rule]] = {
    "time_thinning": ("thumbnail", time_thinning),
    "bridge": ("thumbnail", bridge(0.01, 1.0)),
    "bridge, still 0.003": ("thumbnail", bridge(0.003, 1.0)),
    "bridge, still 0.03": ("thumbnail", bridge(0.03, 1.0)),
    "bridge, still 0.1": ("thumbnail", bridge(0.1, 1.0)),
    "bridge, distance (bridge_distance)": ("thumbnail", bridge(0.01, 0.5)),
    "bridge, distance, still 0.03": ("thumbnail", bridge(0.03, 0.5)),
    "bridge on a 32x16 thumbnail": ("fine", bridge(0.01, 1.0)),
    "bridge on 4x8 patches": ("patches", bridge(0.01, 1.0)),
    "bridge, distance, on 4x8 patches": ("patches", bridge(0.01, 0.5)),
    "adaptive still cost": ("thumbnail", adaptive(0.25, 1.0)),
    "detour": ("thumbnail", detour(0.01, 0.5)),
    "revisit": ("thumbnail", revisit(0.01, 1.0)),
    "revisit, distance, still 0.03": ("thumbnail", revisit(0.03, 0.5)),
}


def keep(rule: Rule, similarity: Real, times: Real, frames_kept: int) -> dict[int, Index]:
    wanted = set(checkpoints(len(times), frames_kept))
    kept: Index = np.zeros(0, np.int64)
    kept_at: dict[int, Index] = {}
    for position in range(len(times)):
        kept = np.append(kept, position)
        if len(kept) > frames_kept:
            costs = rule(kept, similarity, times)[: max(1, len(kept) - 1 - _PROTECT_LATEST)]
            kept = np.delete(kept, 1 + int(np.argmin(costs)))
        if position + 1 in wanted:
            kept_at[position + 1] = kept
    return kept_at


def score(stream: Prepared, kept_at: dict[int, NDArray[np.int64]]) -> dict[str, float]:
    values = []
    for seen, kept in kept_at.items():
        colour = metrics.coverage(stream.colour, kept, seen)
        shape = metrics.coverage(stream.shape, kept, seen)
        recall = metrics.scene_recall(stream.footage.scenes[:seen], kept)
        values.append((colour.mean, colour.p95, shape.mean, shape.p95, recall))
    return dict(zip((*_JUDGED_BY, "scene_recall"), np.mean(values, axis=0).tolist(), strict=True))


def compare(streams: Sequence[Prepared], half: str) -> list[dict[str, Any]]:
    """A row a trial, relative to ``time_thinning``: geometric means of distances, mean gain of recall."""
    scores: dict[str, list[dict[str, float]]] = {name: [] for name in TRIALS}
    for stream in streams:
        similarities = {
            kind: cosines(rows)
            for kind, rows in {
                "thumbnail": stream.descriptors["thumbnail"],
                "fine": grid_descriptor(stream.footage.pixels, (1, 1)),
                "patches": grid_descriptor(stream.footage.pixels, (4, 8)),
            }.items()
        }
        times = stream.footage.stamps_ns.astype(np.float64)
        for size in sizes_for(len(stream.footage)):
            for name, (kind, rule) in TRIALS.items():
                scores[name].append(score(stream, keep(rule, similarities[kind], times, size)))
    rows = []
    for name, own in scores.items():
        pairs = list(zip(own, scores["time_thinning"], strict=True))
        ratios = {
            key: float(np.exp(np.mean([np.log(a[key] / b[key]) for a, b in pairs]))) for key in _JUDGED_BY
        }
        recall = float(np.mean([a["scene_recall"] - b["scene_recall"] for a, b in pairs]))
        overall = float(np.exp(np.mean(np.log(list(ratios.values())))))
        rows.append({"half": half, "trial": name, **ratios, "overall": overall, "recall_gain": recall})
    return rows


def cosines(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    return unit.astype(np.float64) @ unit.T.astype(np.float64)


@console_program
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--clips", type=Path, default=default_data(), help="folder of videos")
    clips = read_clips(parser.parse_args().clips)
    for half, own in (("tuned on", clips[0::2]), ("held out", clips[1::2])):
        streams = [prepare(footage) for footage in [*own, join(half, own, _PIECE_FRAMES)]]
        print_table(compare(streams, half))
        print()


if __name__ == "__main__":
    main()
