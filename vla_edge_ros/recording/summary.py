# SPDX-License-Identifier: Apache-2.0
"""What a recorded run amounts to: misses, latencies, and why each fallback happened.

    python -m vla_edge_ros.recording.summary RUN [--json FILE]

``RUN``: a run's folder, its ``cycles.csv``, or the ``recording.path`` above, whose newest run is taken.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vla_edge_ros.config import TimingConfig
from vla_edge_ros.console import console_program
from vla_edge_ros.errors import SourceError, VlaEdgeError
from vla_edge_ros.recording.cycle_recorder import CYCLES_FILE, RUN_FILE
from vla_edge_ros.recording.cycle_table import read_table
from vla_edge_ros.recording.fallback_causes import Cause, Episode, causes, episodes
from vla_edge_ros.runtime.metrics import DEADLINE_MISSES, Quantiles
from vla_edge_ros.types import ActionSource, CycleRecord, Outcome

MEGABYTE = 1 << 20
EPISODES_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Summary:
    """Of one run. Shares are of ``cycles``; latencies run from the grid point to just before the publish."""

    cycles: int
    outcomes: dict[str, int]
    sources: dict[str, int]
    deadline_miss_rate: float  # chunks that were started and gave no action in time
    late_messages: int  # published after the deadline, whatever they held
    fallback_rate: float
    longest_repeat: int
    refusals: dict[str, int]
    remembered_frames: int  # kept without an action, of refused and of aborted cycles
    fresh_latency_ms: Quantiles
    every_latency_ms: Quantiles
    causes: tuple[Cause, ...]
    episodes: tuple[Episode, ...]
    host_peak_bytes: int
    device_peak_bytes: int
    dropped_records: int


def summarise(records: Sequence[CycleRecord], run: dict[str, Any]) -> Summary:
    """``run``: the document of ``run.json``, or an empty one. Raises ``SourceError`` without any cycle."""
    cycles = [record for record in records if record.outcome is not Outcome.STOPPED]
    if not cycles:
        raise SourceError("expected at least one recorded cycle, got none")
    deadline_ms = run.get("config", {}).get("timing", {}).get("deadline_ms", TimingConfig().deadline_ms)
    published = [record.latency_ms for record in cycles if record.source is not ActionSource.NONE]
    fresh = [record.latency_ms for record in cycles if record.source is ActionSource.FRESH]
    refused = [
        record.decision.reason.value
        for record in cycles
        if record.outcome is Outcome.REFUSED and record.decision is not None
    ]
    return Summary(
        cycles=len(cycles),
        outcomes=dict(Counter(record.outcome.value for record in cycles)),
        sources=dict(Counter(record.source.value for record in cycles)),
        deadline_miss_rate=sum(record.outcome in DEADLINE_MISSES for record in cycles) / len(cycles),
        late_messages=sum(latency_ms > deadline_ms for latency_ms in published),
        fallback_rate=1.0 - len(fresh) / len(cycles),
        longest_repeat=max((r.repeat_streak for r in cycles if r.source is ActionSource.REPEAT), default=0),
        refusals=dict(Counter(refused)),
        remembered_frames=sum(r.remembered + (r.remembered_before is not None) for r in cycles),
        fresh_latency_ms=Quantiles.of(fresh),
        every_latency_ms=Quantiles.of(published),
        causes=causes(cycles),
        episodes=episodes(cycles),
        host_peak_bytes=run.get("host_peak_bytes", 0),
        device_peak_bytes=run.get("device_peak_bytes", 0),
        dropped_records=run.get("dropped_records", 0),
    )


def to_text(summary: Summary) -> str:
    """A few lines a subject, for a terminal."""
    lines = [
        f"cycles     {summary.cycles}: {_counts(summary.outcomes)}",
        f"actions    {_counts(summary.sources)}; fallback rate {summary.fallback_rate:.2%},"
        f" longest repeat {summary.longest_repeat}",
        f"deadline   miss rate {summary.deadline_miss_rate:.3%}, late messages {summary.late_messages}",
        f"refusals   {_counts(summary.refusals) or 'none'}",
        f"remembered {summary.remembered_frames} frames without an action",
        f"latency    {_quantiles(summary.fresh_latency_ms)} of fresh actions",
        f"           {_quantiles(summary.every_latency_ms)} of all messages",
        f"memory     host {_megabytes(summary.host_peak_bytes)},"
        f" device {_megabytes(summary.device_peak_bytes)}",
    ]
    if summary.dropped_records:
        lines.append(f"incomplete {summary.dropped_records} records did not reach the disk")
    lines += [f"fallback   {cause.cycles:6d} {cause.name}: {cause.text}" for cause in summary.causes]
    longest = sorted(summary.episodes, key=lambda episode: -episode.cycles)[:EPISODES_SHOWN]
    if longest:
        lines.append(f"episodes   {len(summary.episodes)} without a fresh action, the longest:")
    lines += [f"           {episode.text}" for episode in longest]
    return "\n".join(lines)


def read_run(path: str | Path) -> tuple[Path, Summary]:
    """The cycle table that was found for ``path``, and its summary."""
    table = _find_table(Path(path))
    run_file = table.parent / RUN_FILE
    try:
        run = json.loads(run_file.read_text(encoding="utf-8")) if run_file.is_file() else {}
    except (OSError, ValueError) as error:
        raise SourceError(f"{run_file}: expected a JSON object, got {error}") from error
    if not isinstance(run, dict):
        raise SourceError(f"{run_file}: expected a JSON object, got a {type(run).__name__}")
    try:
        return table, summarise(read_table(table), run)
    except SourceError as error:
        raise SourceError(f"{table}: {error}" if str(table) not in str(error) else str(error)) from error


def _find_table(path: Path) -> Path:
    if path.is_file():
        return path
    if (path / CYCLES_FILE).is_file():
        return path / CYCLES_FILE
    runs = sorted(path.glob(f"run_*/{CYCLES_FILE}"), key=lambda table: table.stat().st_mtime)
    if not runs:
        raise SourceError(f"{path}: expected a run folder with {CYCLES_FILE}, or a folder of such runs")
    return runs[-1]


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=lambda item: -item[1]))


def _quantiles(latency: Quantiles) -> str:
    return f"p50 {latency.p50:.2f}  p95 {latency.p95:.2f}  p99 {latency.p99:.2f}  max {latency.max:.2f} ms"


def _megabytes(size: int) -> str:
    return f"{size / MEGABYTE:.0f} MB at most" if size else "not recorded"


@console_program
def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="summary", description=__doc__.partition("\n")[0])
    parser.add_argument("run", help="run folder, cycles.csv, or the folder that holds the runs")
    parser.add_argument("--json", help="write the summary here as well")
    options = parser.parse_args(arguments)
    try:
        table, summary = read_run(options.run)
    except VlaEdgeError as error:
        print(f"summary: {error}", file=sys.stderr)
        return 2
    print(f"run        {table}")
    print(to_text(summary))
    if options.json:
        document = json.dumps(dataclasses.asdict(summary), indent=2)
        Path(options.json).write_text(document + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
