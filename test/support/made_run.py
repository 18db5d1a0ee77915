# SPDX-License-Identifier: Apache-2.0
"""A run folder of ``run_benchmarks`` whose every number is known, written with the project's own recorder."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from vla_edge_ros.bench.run.plan import Plan, Trial
from vla_edge_ros.bench.run.run_file import COMPLETE, RunFile
from vla_edge_ros.recording.cycle_recorder import CycleRecorder
from vla_edge_ros.types import (
    NS_PER_MS,
    Action,
    ActionSource,
    ChunkTimes,
    CycleRecord,
    Decision,
    Outcome,
    Reason,
)

PERIOD_MS = 33.0
TINY = {"model.preset": "tiny", "engine.name": "numpy", "cache.capacity_slots": 1024}


def acted(cycle: int, latency_ms: float = 10.0, predicted_ms: float = 8.0) -> CycleRecord:
    """A fresh action whose picture was 5 ms old when it was taken, 1 ms after the grid point."""
    stamp_ns = round(cycle * PERIOD_MS * NS_PER_MS)
    return CycleRecord(
        cycle,
        Outcome.ACTED,
        ActionSource.FRESH,
        action=Action(np.zeros(6), stamp_ns),
        frame_sequence=2 * cycle,
        frame_stamp_ns=stamp_ns,
        frame_age_ms=5.0,
        decision=Decision(True, Reason.WITHIN_BUDGET, 1.0, predicted_ms, 31.0),
        times=ChunkTimes(900, 0.5, 3.0, (1.0,) * 5, completed=True),
        tokens=(cycle % 7,) * 6,
        slots_in_use=900,
        latency_ms=latency_ms,
    )


def missed(cycle: int) -> CycleRecord:
    return replace(
        acted(cycle, 32.0), outcome=Outcome.LATE, source=ActionSource.REPEAT, repeat_streak=1, times=None
    )


def refused(cycle: int) -> CycleRecord:
    decision = Decision(False, Reason.OVER_BUDGET, 1.0, 40.0, 31.0)
    return replace(
        acted(cycle, 1.0),
        outcome=Outcome.REFUSED,
        source=ActionSource.ZERO,
        decision=decision,
        times=None,
        tokens=(),
    )


def plan(**values: object) -> Plan:
    known = {"policies": ("fifo", "novelty"), "duration_s": 20.0, "warmup_s": 2.0, "parameters": TINY}
    return Plan(**{**known, **values})  # type: ignore[arg-type]


def write_run(folder: Path, made: Plan, records: Callable[[Trial], Sequence[CycleRecord]]) -> Path:
    """``records``: of each trial, its warm-up first. Everything else that a trial leaves is written too."""
    folder.mkdir(parents=True)
    run_file = RunFile(folder, made, "run_benchmarks --made")
    for number, trial in enumerate(made.trials()):
        own = folder / trial.folder
        recorder = CycleRecorder(own / "recording", made.config(trial))
        for record in records(trial):
            recorder.record(record)
        recorder.close()
        (own / "memory.csv").write_text(
            "at_s,name,mb\n" + "".join(f"{s / 10:.3f},reasoner,{100 + s / 100:.3f}\n" for s in range(250))
        )
        looks = [
            {"at_s": float(s), "kept_s": [s - 0.1, float(s)], "chunks": [30 * s - 1, 30 * s]}
            for s in range(1, 22)
        ]
        looks[-1] |= {"file": "kept_0.npy", "shown_s": looks[-1]["kept_s"]}
        np.save(own / "kept_0.npy", np.full((2, 32, 64, 3), 90, np.uint8))
        (own / "kept.jsonl").write_text("".join(json.dumps(look) + "\n" for look in looks))
        run_file.note(number, status=COMPLETE, first_picture_s=1.0)
    run_file.end()
    return folder


def calm(trial: Trial) -> list[CycleRecord]:
    """606 measured cycles behind a warm-up of 61: ``fifo`` misses 6 of them, ``novelty`` refuses 60."""
    records = [acted(cycle) for cycle in range(1, 62)]
    for cycle in range(62, 668):
        is_odd_one = cycle % 10 == 0 if trial.policy == "novelty" else cycle % 101 == 0
        other = refused if trial.policy == "novelty" else missed
        records.append(other(cycle) if is_odd_one else acted(cycle, 10.0 + cycle % 5))
    return records
