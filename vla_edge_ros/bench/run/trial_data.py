# SPDX-License-Identifier: Apache-2.0
"""What a trial left on disk, read back: its warm-up apart from what is measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vla_edge_ros.bench.run.kept_frames import KEPT_FILE
from vla_edge_ros.bench.run.processes import EPISODES_FILE
from vla_edge_ros.bench.run.run_file import read_run_file
from vla_edge_ros.bench.run.runner import RECORDING
from vla_edge_ros.bench.run.sampler import MEMORY_FILE, MemorySample, read_samples
from vla_edge_ros.bench.run.trial_state import read_state
from vla_edge_ros.errors import SourceError
from vla_edge_ros.recording.cycle_recorder import CYCLES_FILE, RUN_FILE
from vla_edge_ros.recording.cycle_table import read_table
from vla_edge_ros.tabletop.results import EpisodeResult, read_results
from vla_edge_ros.types import CycleRecord, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialData:
    """``memory`` and ``kept`` have their times since the first picture. ``config``: the node's."""

    name: str
    policy: str
    repeat: int
    seed: int
    status: str
    error: str = ""
    period_ms: float
    deadline_ms: float
    warmup: Sequence[CycleRecord] = ()
    cycles: Sequence[CycleRecord] = ()
    memory: Sequence[MemorySample] = ()
    device_mb_before: float | None = None
    other_cores: float | None = None
    kept: Sequence[dict[str, Any]] = ()
    episodes: Sequence[EpisodeResult] = ()
    state: dict[str, Any]
    config: dict[str, Any]
    folder: Path = Path()

    @property
    def cycles_a_second(self) -> int:
        return max(1, round(1000 / self.period_ms))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunData:
    """``document``: that of ``run.json``. ``trials``: those that left cycles."""

    folder: Path
    document: dict[str, Any]
    trials: Sequence[TrialData]

    def of(self, policy: str) -> list[TrialData]:
        return [trial for trial in self.trials if trial.policy == policy]

    @property
    def policies(self) -> list[str]:
        """In the order of the plan; those that were measured."""
        measured = {trial.policy for trial in self.trials}
        return [name for name in self.document["plan"]["policies"] if name in measured]

    @property
    def is_complete(self) -> bool:
        return bool(self.document["complete"])


def read_run(folder: Path) -> RunData:
    """Raises ``SourceError`` where ``folder`` is no run folder, or nothing was measured in it."""
    document = read_run_file(folder)
    plan = document["plan"]
    found = [_read_trial(folder, entry, plan) for entry in document["trials"]]
    trials = [trial for trial in found if trial is not None and trial.cycles]
    if not trials:
        raise SourceError(f"{folder} must hold at least one measured cycle, got none")
    return RunData(folder=folder, document=document, trials=trials)


def split(
    records: Sequence[CycleRecord], period_ms: float, warmup_s: float, duration_s: float
) -> tuple[list[CycleRecord], list[CycleRecord]]:
    """Warm-up and measured cycles, by number from the first one with a picture; later ones are left out."""
    answered = [record for record in records if record.outcome is not Outcome.STOPPED]
    first = next((r.cycle for r in answered if r.outcome is not Outcome.NO_FRAME_YET), None)
    if first is None:
        return answered, []
    begin = first + round(warmup_s * 1000 / period_ms)
    end = begin + round(duration_s * 1000 / period_ms)
    warmup = [record for record in answered if record.cycle < begin]
    return warmup, [record for record in answered if begin <= record.cycle < end]


def _read_trial(folder: Path, entry: dict[str, Any], plan: dict[str, Any]) -> TrialData | None:
    own = folder / entry["folder"]
    tables = sorted((own / RECORDING).glob(f"*/{CYCLES_FILE}"))
    if not tables:
        return None
    config = _config_beside(tables[-1])
    timing = config["timing"]
    records = read_table(tables[-1])
    warmup, cycles = split(records, timing["period_ms"], plan["warmup_s"], plan["duration_s"])
    begun_s = float(entry.get("first_picture_s") or 0.0)
    return TrialData(
        name=entry["name"],
        policy=entry["policy"],
        repeat=entry["repeat"],
        seed=entry["seed"],
        status=entry["status"],
        error=entry["error"],
        period_ms=timing["period_ms"],
        deadline_ms=timing["deadline_ms"],
        warmup=warmup,
        cycles=cycles,
        memory=[replace(sample, at_s=sample.at_s - begun_s) for sample in read_samples(own / MEMORY_FILE)],
        device_mb_before=entry.get("device_mb_before"),
        other_cores=entry.get("other_cores"),
        kept=_notes(own / KEPT_FILE),
        episodes=read_results(own / EPISODES_FILE),
        state=read_state(own),
        config=config,
        folder=own,
    )


def _config_beside(table: Path) -> dict[str, Any]:
    path = table.parent / RUN_FILE
    try:
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["config"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SourceError(f"{path}: expected the configuration of a recorded run, got: {error}") from error
    return config


def _notes(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
    try:
        return [json.loads(line) for line in whole.splitlines()]
    except ValueError as error:
        raise SourceError(f"{path}: expected a line of JSON a second, got: {error}") from error
