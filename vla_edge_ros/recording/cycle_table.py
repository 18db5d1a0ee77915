# SPDX-License-Identifier: Apache-2.0
"""The compact table of a run: CSV, one row a cycle, one number a column, the unit in the column's name.

CSV since PlotJuggler, pandas and any spreadsheet read it as it is, and since a run that ends in a crash
keeps every row but the last (Parquet and NPZ write their index at the end, and lose all). Times are rounded
to 0.1 us. An empty cell means that the cycle had no such value. Values that have no column, as the tokens of
an action with more dimensions, are listed in the cell ``beyond``: a strange row does not end a recording.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import SupportsFloat, SupportsInt

import numpy as np

from vla_edge_ros.errors import SourceError
from vla_edge_ros.types import (
    Action,
    ActionSource,
    ChunkTimes,
    CycleRecord,
    Decision,
    Outcome,
    Reason,
    Remembered,
)

# One cell above 131,072 characters, and Python's reader refuses the file.
LONGEST_ERROR = 8_000  # characters
MOST_BEYOND = 1_000  # values of each list that have no column
LONGEST_MS = 1e12  # 30 years; a larger number is no time, and would take 300 characters

_CYCLE = (
    "cycle", "outcome", "source", "latency_ms", "repeat_streak", "skipped_cycles",
    "frame_sequence", "frame_stamp_ns", "frame_age_ms",
)  # fmt: skip
_DECISION = ("admitted", "reason", "elapsed_ms", "predicted_ms", "budget_ms")
_MEMORY = ("slots_in_use", "evicted_sequence")
_REMEMBERED = (
    "remembered", "remembered_before", "remembered_before_evicted", "remembered_before_vision_ms",
    "remembered_before_prefill_ms",
)  # fmt: skip
_CHUNK = ("chunk_slots", "chunk_completed", "chunk_drafted", "vision_ms", "prefill_ms")
_BEYOND = "beyond"


def columns(action_names: Sequence[str]) -> list[str]:
    """Column names of a table of actions with these dimensions.

    As many decode steps as dimensions: the prefill gives the first token, but a verification pass may accept
    no draft token.
    """
    return [*_columns(action_names, len(action_names)), _BEYOND, *_REMEMBERED]


def _columns(action_names: Sequence[str], steps: int) -> list[str]:
    decode = [_decode_column(step) for step in range(steps)]
    tokens = [f"token_{name}" for name in action_names]
    values = [f"action_{name}" for name in action_names]
    return [*_CYCLE, *_DECISION, *_MEMORY, *_CHUNK, *decode, *tokens, "action_stamp_ns", *values, "error"]


def _decode_column(step: int) -> str:
    return f"decode_{step + 1}_ms"


def to_row(record: CycleRecord, dimensions: int) -> list[str]:
    """Cells in the order of ``columns`` for actions of so many dimensions.

    Any record has a row that ``read_table`` reads. An error is cut at ``LONGEST_ERROR`` characters, a list
    ``MOST_BEYOND`` values behind its columns.
    """
    row = [
        _whole(record.cycle), record.outcome.value, record.source.value, _ms(record.latency_ms),
        _whole(record.repeat_streak), _whole(record.skipped_cycles),
        _whole(record.frame_sequence), _whole(record.frame_stamp_ns), _ms(record.frame_age_ms),
    ]  # fmt: skip
    decision, times, action = record.decision, record.times, record.action
    if decision is None:
        row += [""] * len(_DECISION)
    else:
        row += [str(int(decision.admitted)), decision.reason.value]
        row += [_ms(decision.elapsed_ms), _ms(decision.predicted_ms), _ms(decision.budget_ms)]
    row += [_whole(record.slots_in_use)]
    row += ["" if record.evicted_sequence is None else _whole(record.evicted_sequence)]
    if times is None:
        row += [""] * len(_CHUNK)
    else:
        row += [_whole(times.slots_in_use), str(int(times.completed)), str(int(times.drafted))]
        row += [_ms(times.vision_ms), _ms(times.prefill_ms)]
    decode = [_ms(ms) for ms in times.decode_ms] if times is not None else []
    tokens = [_whole(token) for token in record.tokens]
    values = [f"{value:.9g}" for value in np.ravel(action.values).tolist()] if action is not None else []
    row += _padded(decode, dimensions) + _padded(tokens, dimensions)
    row += [_whole(action.stamp_ns) if action is not None else ""]
    row += _padded(values, dimensions)
    # One line, and no NUL, at which csv before Python 3.11 stops reading.
    row += [" ".join(record.error[:LONGEST_ERROR].replace("\0", " ").split())]
    return [*row, _beyond((decode, tokens, values), dimensions), *_remembered(record)]


def _remembered(record: CycleRecord) -> list[str]:
    before = record.remembered_before
    if before is None:
        return [str(int(record.remembered)), "", "", "", ""]
    evicted = "" if before.evicted_sequence is None else _whole(before.evicted_sequence)
    times = [_ms(before.vision_ms), _ms(before.prefill_ms)]
    return [str(int(record.remembered)), _whole(before.sequence), evicted, *times]


def _beyond(lists: Sequence[Sequence[str]], count: int) -> str:
    """What ``_padded`` has cut off: values with spaces between them, the lists with semicolons."""
    cut = [" ".join(cells[count : count + MOST_BEYOND]) for cells in lists]
    return ";".join(cut) if any(cut) else ""


def read_table(path: str | Path) -> list[CycleRecord]:
    """The records of a table. A last row that was cut short is left out: the run ended in the middle of it.

    Tables of earlier versions are read too: without what was remembered, and before that with a decode step
    less and no ``beyond``. Raises ``SourceError`` where the file is missing or is not such a table.
    """
    try:
        data = Path(path).read_bytes()
        text = data[: data.rfind(b"\n") + 1].decode()  # a cut may also leave half a character
        header, *lines = list(csv.reader(text.split("\n")[:-1])) or [[]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SourceError(f"{path}: expected a cycle table, cannot read it: {error}") from error
    names = [name.removeprefix("token_") for name in header if name.startswith("token_")]
    if not names or header not in _versions(names):
        raise SourceError(f"{path}: expected the header of a cycle table, got {','.join(header)[:80]!r}")
    # By number from here on: a dimension may be called as a column is, "stamp_ns".
    numbers = [str(dimension) for dimension in range(len(names))]
    keys = next(keys for keys in _versions(numbers) if len(keys) == len(header))
    records = []
    for number, cells in enumerate(lines, start=2):
        try:
            records.append(_to_record(dict(zip(keys, cells, strict=True)), numbers))
        except ValueError as error:
            raise SourceError(f"{path}, line {number}: expected a cycle's row, got {error}") from error
    return records


def _versions(action_names: Sequence[str]) -> list[list[str]]:
    """Column names of this version's tables and of earlier ones', each of another length."""
    newest = columns(action_names)
    return [newest, newest[: -len(_REMEMBERED)], _columns(action_names, len(action_names) - 1)]


def _to_record(cell: dict[str, str], numbers: Sequence[str]) -> CycleRecord:
    beyond = [text.split() for text in (cell.get(_BEYOND) or ";;").split(";")]
    if len(beyond) != 3:
        raise ValueError(f"{len(beyond)} lists of values without a column, not 3")
    steps, tokens, values = beyond
    return CycleRecord(
        cycle=int(cell["cycle"]),
        outcome=Outcome(cell["outcome"]),
        source=ActionSource(cell["source"]),
        action=_to_action(cell, numbers, values),
        repeat_streak=int(cell["repeat_streak"]),
        frame_sequence=int(cell["frame_sequence"]),
        frame_stamp_ns=int(cell["frame_stamp_ns"]),
        frame_age_ms=float(cell["frame_age_ms"]),
        decision=_to_decision(cell),
        times=_to_times(cell, [_decode_column(step) for step in range(len(numbers))], steps),
        tokens=tuple(
            int(token) for token in _filled(cell, [f"token_{number}" for number in numbers], tokens)
        ),
        evicted_sequence=int(cell["evicted_sequence"]) if cell["evicted_sequence"] else None,
        remembered=cell.get("remembered") == "1",
        remembered_before=_to_remembered(cell),
        slots_in_use=int(cell["slots_in_use"]),
        skipped_cycles=int(cell["skipped_cycles"]),
        latency_ms=float(cell["latency_ms"]),
        error=cell["error"],
    )


def _to_action(cell: dict[str, str], numbers: Sequence[str], beyond: Sequence[str]) -> Action | None:
    if not cell["action_stamp_ns"]:
        return None
    values = [float(value) for value in _filled(cell, [f"action_{number}" for number in numbers], beyond)]
    return Action(np.array(values, np.float64), int(cell["action_stamp_ns"]))


def _to_decision(cell: dict[str, str]) -> Decision | None:
    if not cell["reason"]:
        return None
    times = (float(cell[name]) for name in ("elapsed_ms", "predicted_ms", "budget_ms"))
    return Decision(cell["admitted"] == "1", Reason(cell["reason"]), *times)


def _to_remembered(cell: dict[str, str]) -> Remembered | None:
    if not cell.get("remembered_before"):
        return None
    evicted = cell["remembered_before_evicted"]
    times = (float(cell[f"remembered_before_{stage}_ms"]) for stage in ("vision", "prefill"))
    return Remembered(int(cell["remembered_before"]), int(evicted) if evicted else None, *times)


def _to_times(cell: dict[str, str], steps: Sequence[str], beyond: Sequence[str]) -> ChunkTimes | None:
    if not cell["chunk_slots"]:
        return None
    return ChunkTimes(
        slots_in_use=int(cell["chunk_slots"]),
        vision_ms=float(cell["vision_ms"]),
        prefill_ms=float(cell["prefill_ms"]),
        decode_ms=tuple(float(ms) for ms in _filled(cell, steps, beyond)),
        completed=cell["chunk_completed"] == "1",
        drafted=cell["chunk_drafted"] == "1",
    )


def _filled(cell: dict[str, str], names: Sequence[str], beyond: Sequence[str]) -> list[str]:
    """The cells of a list that hold something, and those that had no column."""
    return [*(cell[name] for name in names if cell.get(name)), *beyond]


def _ms(value: SupportsFloat) -> str:
    number = float(value)  # not a NumPy scalar, whose repr names its type
    return f"{number:.4f}" if abs(number) < LONGEST_MS else repr(number)


def _whole(value: SupportsInt) -> str:
    return str(int(value))


def _padded(cells: Sequence[str], count: int) -> list[str]:
    """The first ``count`` of them, with empty ones behind where there are fewer."""
    return [*cells[:count], *[""] * (count - len(cells))]
