# SPDX-License-Identifier: Apache-2.0
"""The demo's texts: one line a second, and the summary at the end."""

from __future__ import annotations

import resource
from dataclasses import dataclass

from vla_edge_ros.runtime.metrics import MetricsSnapshot
from vla_edge_ros.types import ActionSource, Outcome

KIB_PER_MB = 1024


@dataclass(frozen=True, slots=True)
class FrameCounts:
    """Where the frames went: ``written`` = ``overwritten`` + ``used`` + at most one that still waits."""

    written: int = 0
    overwritten: int = 0
    refused: int = 0

    @property
    def used(self) -> int:
        return self.written - self.overwritten


def live_line(second: int, images: int, before: MetricsSnapshot, now: MetricsSnapshot) -> str:
    """What happened since ``before``, and the latency of the last cycles."""

    def more(outcome: Outcome) -> int:
        return now.outcomes.get(outcome, 0) - before.outcomes.get(outcome, 0)

    repeats = now.sources.get(ActionSource.REPEAT, 0) - before.sources.get(ActionSource.REPEAT, 0)
    late = now.late_messages - before.late_messages
    remembered = now.remembered_frames - before.remembered_frames
    missed = more(Outcome.ABORTED) + more(Outcome.LATE)
    return (
        f"{second:4d} s | camera {images:3d} Hz"
        f" | admitted {more(Outcome.ACTED) + missed:3d} refused {more(Outcome.REFUSED):3d}"
        f" remembered {remembered:3d}"
        f" | deadline misses {missed:3d}"
        f" | repeats {repeats:3d}"
        f" | late {late:3d} | latency p50 {now.latency_ms.p50:6.2f} p99 {now.latency_ms.p99:6.2f} ms"
    )


def summary(metrics: MetricsSnapshot, frames: FrameCounts, published: int | None) -> str:
    """The whole run, a line a subject. ``published``: images; None where the camera is not ours to ask."""
    sent = "" if published is None else f"{published} images published, "
    cycles = max(1, metrics.cycles)
    fresh = metrics.sources.get(ActionSource.FRESH, 0)
    outcomes = ", ".join(f"{o.value} {metrics.outcomes[o]}" for o in Outcome if o in metrics.outcomes)
    latency = metrics.latency_ms
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIB_PER_MB
    return "\n".join(
        [
            "",
            f"camera    {sent}{frames.written} received, {frames.refused} refused,"
            f" {frames.overwritten} overwritten unread, {frames.used} used",
            f"cycles    {metrics.cycles}: {outcomes or 'none'}",
            f"actions   {100 * fresh / cycles:.2f} % fresh, longest repeat {metrics.longest_repeat},"
            f" late messages {metrics.late_messages}, periods without a message {metrics.unanswered_cycles}",
            f"deadline  {metrics.deadline_misses} misses ({100 * metrics.deadline_misses / cycles:.2f} %)",
            f"latency   p50 {latency.p50:.2f}  p95 {latency.p95:.2f}  p99 {latency.p99:.2f}"
            f"  max {latency.max:.2f} ms, of the last {metrics.window_cycles} cycles",
            f"memory    {peak_mb:.0f} MB at most,"
            f" {metrics.remembered_frames} frames remembered without an action",
        ]
    )
