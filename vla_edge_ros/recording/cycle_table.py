# SPDX-License-Identifier: Apache-2.0
"""The compact table of a run: CSV, one row a cycle, one number a column, the unit in the column's name.

CSV since PlotJuggler, pandas and any spreadsheet read it as it is, and since a run that ends in a crash
keeps every row but the last (Parquet and NPZ write their index at the end, and lose all). Times are rounded
to 0.1 us. An empty cell means that the cycle had no such value.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vla_edge_ros.errors import SourceError
from vla_edge_ros.types import Action, ActionSource, ChunkTimes, CycleRecord, Decision, Outcome, Reason

_CYCLE = (
    "cycle", "outcome", "source", "latency_ms", "repeat_streak", "skipped_cycles",
    "frame_sequence", "frame_stamp_ns", "frame_age_ms",
)  # fmt: skip
_DECISION = ("admitted", "reason", "elapsed_ms", "predicted_ms", "budget_ms")
_MEMORY = ("slots_in_use", "evicted_sequence")
_CHUNK = ("chunk_slots", "chunk_completed", "chunk_drafted", "vision_ms", "prefill_ms")


def columns(action_names: Sequence[str]) -> list[str]:
    """Column names of a table of actions with these dimensions."""
    decode = [f"decode_{step}_ms" for step in range(1, len(action_names))]
    tokens = [f"token_{name}" for name in action_names]
    values = [f"action_{name}" for name in action_names]
    return [*_CYCLE, *_DECISION, *_MEMORY, *_CHUNK, *decode, *tokens, "action_stamp_ns", *values, "error"]


def to_row(record: CycleRecord, dimensions: int) -> list[str]:
    """Cells in the order of ``columns`` for actions of so many dimensions."""
    row = [
        str(record.cycle), record.outcome.value, record.source.value, _ms(record.latency_ms),
        str(record.repeat_streak), str(record.skipped_cycles),
        str(record.frame_sequence), str(record.frame_stamp_ns), _ms(record.frame_age_ms),
    ]  # fmt: skip
    decision = record.decision
    if decision is None:
        row += [""] * len(_DECISION)
    else:
        row += [str(int(decision.admitted)), decision.reason.value]
        row += [_ms(decision.elapsed_ms), _ms(decision.predicted_ms), _ms(decision.budget_ms)]
    row += [str(record.slots_in_use), "" if record.evicted_sequence is None else str(record.evicted_sequence)]
    times = record.times
    if times is None:
        row += [""] * (len(_CHUNK) + dimensions - 1)
    else:
        row += [str(times.slots_in_use), str(int(times.completed)), str(int(times.drafted))]
        row += [_ms(times.vision_ms), _ms(times.prefill_ms)]
        row += _padded([_ms(ms) for ms in times.decode_ms], dimensions - 1)
    row += _padded([str(token) for token in record.tokens], dimensions)
    action = record.action
    row += [""] if action is None else [str(action.stamp_ns)]
    row += _padded([] if action is None else [f"{value:.9g}" for value in action.values.tolist()], dimensions)
    # One line, and no NUL, at which csv before Python 3.11 stops reading.
    return [*row, " ".join(record.error.replace("\0", " ").split())]


def read_table(path: str | Path) -> list[CycleRecord]:
    """The records of a table. A last row that was cut short is left out: the run ended in the middle of it.

    Raises ``SourceError`` where the file is missing or is not such a table.
    """
    try:
        data = Path(path).read_bytes()
        text = data[: data.rfind(b"\n") + 1].decode()  # a cut may also leave half a character
        header, *lines = list(csv.reader(text.split("\n")[:-1])) or [[]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SourceError(f"{path}: expected a cycle table, cannot read it: {error}") from error
    names = [name.removeprefix("token_") for name in header if name.startswith("token_")]
    if not names or header != columns(names):
        raise SourceError(f"{path}: expected the header of a cycle table, got {','.join(header)[:80]!r}")
    records = []
    for number, cells in enumerate(lines, start=2):
        try:
            records.append(_to_record(dict(zip(header, cells, strict=True)), names))
        except ValueError as error:
            raise SourceError(f"{path}, line {number}: expected a cycle's row, got {error}") from error
    return records


def _to_record(cell: dict[str, str], names: Sequence[str]) -> CycleRecord:
    return CycleRecord(
        cycle=int(cell["cycle"]),
        outcome=Outcome(cell["outcome"]),
        source=ActionSource(cell["source"]),
        action=_to_action(cell, names),
        repeat_streak=int(cell["repeat_streak"]),
        frame_sequence=int(cell["frame_sequence"]),
        frame_stamp_ns=int(cell["frame_stamp_ns"]),
        frame_age_ms=float(cell["frame_age_ms"]),
        decision=_to_decision(cell),
        times=_to_times(cell, len(names) - 1),
        tokens=tuple(int(cell[f"token_{name}"]) for name in names if cell[f"token_{name}"]),
        evicted_sequence=int(cell["evicted_sequence"]) if cell["evicted_sequence"] else None,
        slots_in_use=int(cell["slots_in_use"]),
        skipped_cycles=int(cell["skipped_cycles"]),
        latency_ms=float(cell["latency_ms"]),
        error=cell["error"],
    )


def _to_action(cell: dict[str, str], names: Sequence[str]) -> Action | None:
    if not cell["action_stamp_ns"]:
        return None
    values = np.array([float(cell[f"action_{name}"]) for name in names])
    return Action(values, int(cell["action_stamp_ns"]))


def _to_decision(cell: dict[str, str]) -> Decision | None:
    if not cell["reason"]:
        return None
    times = (float(cell[name]) for name in ("elapsed_ms", "predicted_ms", "budget_ms"))
    return Decision(cell["admitted"] == "1", Reason(cell["reason"]), *times)


def _to_times(cell: dict[str, str], steps: int) -> ChunkTimes | None:
    if not cell["chunk_slots"]:
        return None
    ran = [cell[f"decode_{step}_ms"] for step in range(1, steps + 1)]
    return ChunkTimes(
        slots_in_use=int(cell["chunk_slots"]),
        vision_ms=float(cell["vision_ms"]),
        prefill_ms=float(cell["prefill_ms"]),
        decode_ms=tuple(float(ms) for ms in ran if ms),
        completed=cell["chunk_completed"] == "1",
        drafted=cell["chunk_drafted"] == "1",
    )


def _ms(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else repr(value)


def _padded(cells: list[str], count: int) -> list[str]:
    assert len(cells) <= count, f"{len(cells)} cells for {count} columns"
    return cells + [""] * (count - len(cells))
