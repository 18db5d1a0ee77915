# SPDX-License-Identifier: Apache-2.0
"""Pictures of what each policy keeps: the kept frames over time, and coverage against cache size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from vla_edge_ros.bench.studies.retention_replay import JOINED, Prepared, policies, replay
from vla_edge_ros.types import NS_PER_S

_SHOWN = ("fifo", "semantic", "reservoir", "time_thinning", "bridge", "novelty")
_COLUMNS = 220  # moments drawn along the time axis
_COLOURS = {
    "fifo": "#7f7f7f",
    "semantic": "#d62728",
    "semantic_newer": "#e99a9a",
    "reservoir": "#9467bd",
    "time_thinning": "#1f77b4",
    "bridge": "#2ca02c",
    "bridge_distance": "#17becf",
    "novelty": "#ff7f0e",
}


def draw_all(streams: Sequence[Prepared], rows: Sequence[dict[str, Any]], folder: Path) -> Iterable[Path]:
    """Write the plots into ``folder``: kept frames for the joined and the longest clip, and coverage."""
    matplotlib.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    joined = next(stream for stream in streams if stream.footage.name == JOINED)
    longest = max((s for s in streams if s is not joined), key=lambda stream: len(stream.footage))
    for stream in (joined, longest):
        yield _save(draw_kept(stream, 64), folder / f"retention-kept-{stream.footage.name}.png")
    yield _save(draw_coverage(rows, JOINED), folder / "retention-coverage.png")


def draw_kept(stream: Prepared, frames_kept: int) -> Figure:
    """A panel a policy. A vertical line through a panel meets the frames kept at that moment."""
    footage = stream.footage
    seconds = footage.stamps_ns / NS_PER_S
    drawn_at = np.linspace(seconds[frames_kept - 1], seconds[-1], _COLUMNS)
    moments = np.unique(np.searchsorted(seconds, drawn_at, side="right"))
    figure = Figure(figsize=(12, 7), layout="constrained")
    panels = figure.subplots(2, 3, sharex=True, sharey=True)
    every_policy = policies()
    for panel, name in zip(panels.flat, _SHOWN, strict=True):
        kept_at = replay(footage, stream.descriptors, every_policy[name], frames_kept, moments)
        seen = np.concatenate([np.full(len(kept), seconds[count - 1]) for count, kept in kept_at.items()])
        frame = np.concatenate([seconds[kept] for kept in kept_at.values()])
        for cut in seconds[np.flatnonzero(np.diff(footage.scenes)) + 1]:
            panel.axhline(cut, color="0.88", linewidth=0.6, zorder=0)
        panel.scatter(seen, frame, s=1.6, linewidths=0, color=_COLOURS[name], rasterized=True)
        panel.set_title(name, fontsize=11)
    figure.supxlabel("time of the stream, s: what is in the cache at this moment")
    figure.supylabel("time at which the kept frame was taken, s")
    cuts = "; grey lines: cuts between scenes" if footage.scenes.any() else ""
    figure.suptitle(f"{footage.name}: {len(footage)} frames, {frames_kept} kept (one dot each){cuts}")
    return figure


def draw_coverage(rows: Sequence[dict[str, Any]], clip: str) -> Figure:
    """Mean and 95th percentile of the distance to the nearest kept frame against cache size."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    for panel, key, title in zip(
        figure.subplots(1, 2), ("coverage_mean", "coverage_p95"), ("mean", "95th percentile"), strict=True
    ):
        for name, colour in _COLOURS.items():
            points = sorted(
                (row["frames_kept"], row[key]) for row in rows if (row["clip"], row["policy"]) == (clip, name)
            )
            if points:
                panel.plot(*zip(*points, strict=True), "o-", color=colour, label=name)
        panel.set_xlabel("frames kept")
        panel.set_title(f"{clip}: distance to the nearest kept frame, {title}", fontsize=10)
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter("{x:g}")
        panel.yaxis.set_minor_formatter("{x:g}")
        panel.grid(color="0.92", which="both")
    figure.axes[0].set_ylabel("RMS grey levels (lower is better)")
    figure.axes[1].legend(fontsize=8)
    return figure


def _save(figure: Figure, path: Path) -> Path:
    figure.savefig(path, dpi=100, metadata={"Software": None})
    return path
