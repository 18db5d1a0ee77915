# SPDX-License-Identifier: Apache-2.0
"""The table of a run: what is written comes back, and what a crash leaves can be read."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vla_edge_ros.config import ACTION_NAMES
from vla_edge_ros.errors import SourceError
from vla_edge_ros.recording.cycle_recorder import CycleRecorder
from vla_edge_ros.recording.cycle_table import LONGEST_ERROR, MOST_BEYOND, columns, read_table, to_row
from vla_edge_ros.recording.summary import summarise, to_text
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


def numpy_too(numbers, scalar):
    """Also as NumPy scalars, which engines and caches hand out."""
    return numbers | numbers.map(scalar)


counts = numpy_too(st.integers(-(2**63), 2**63 - 1), np.int64)
ms = numpy_too(st.floats(), np.float64)
actions = st.builds(Action, st.lists(st.floats(), max_size=12).map(np.array), counts)
records = st.builds(
    CycleRecord,
    cycle=counts,
    outcome=st.sampled_from(Outcome),
    source=st.sampled_from(ActionSource),
    action=st.none() | actions,
    repeat_streak=counts,
    frame_sequence=counts,
    frame_stamp_ns=counts,
    frame_age_ms=ms,
    decision=st.none() | st.builds(Decision, st.booleans(), st.sampled_from(Reason), ms, ms, ms),
    times=st.none()
    | st.builds(
        ChunkTimes,
        counts,
        ms,
        ms,
        st.lists(ms, max_size=12).map(tuple),
        completed=st.booleans(),
        drafted=st.booleans(),
    ),
    tokens=st.lists(counts, max_size=12).map(tuple),
    evicted_sequence=st.none() | counts,
    remembered=st.booleans(),
    remembered_before=st.none() | st.builds(Remembered, counts, st.none() | counts, ms, ms),
    slots_in_use=counts,
    skipped_cycles=counts,
    latency_ms=ms,
    error=st.text(st.characters(), max_size=40),  # lone surrogates too
)


def write(path, rows) -> None:
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns(ACTION_NAMES))
        writer.writerows(to_row(record, 8) for record in rows)


def assert_same(read: CycleRecord, written: CycleRecord) -> None:
    """Equal, times to 0.1 us and values to nine digits; an error's white space is one space."""
    for name in ("cycle", "outcome", "source", "repeat_streak", "frame_sequence", "frame_stamp_ns", "tokens"):
        assert getattr(read, name) == getattr(written, name)
    for name in ("evicted_sequence", "slots_in_use", "skipped_cycles"):
        assert getattr(read, name) == getattr(written, name)
    before, was = read.remembered_before, written.remembered_before
    assert (read.remembered, before is None) == (written.remembered, was is None)
    near = {"abs": 5.1e-5, "rel": 1e-9, "nan_ok": True}
    assert read.latency_ms == pytest.approx(written.latency_ms, **near)
    assert read.frame_age_ms == pytest.approx(written.frame_age_ms, **near)
    if was is not None:
        assert (before.sequence, before.evicted_sequence) == (was.sequence, was.evicted_sequence)
        assert before.vision_ms == pytest.approx(was.vision_ms, **near)
        assert before.prefill_ms == pytest.approx(was.prefill_ms, **near)
    printable = written.error.encode("utf-8", "backslashreplace").decode()
    assert read.error.split() == printable.replace("\0", " ").split()
    assert (read.decision is None, read.times is None) == (written.decision is None, written.times is None)
    if written.decision is not None:
        assert (read.decision.admitted, read.decision.reason) == (
            written.decision.admitted,
            written.decision.reason,
        )
        for name in ("elapsed_ms", "predicted_ms", "budget_ms"):
            assert getattr(read.decision, name) == pytest.approx(getattr(written.decision, name), **near)
    if written.times is not None:
        assert read.times.completed == written.times.completed
        assert read.times.drafted == written.times.drafted
        assert read.times.slots_in_use == written.times.slots_in_use
        assert read.times.prefill_ms == pytest.approx(written.times.prefill_ms, **near)
        assert read.times.decode_ms == pytest.approx(written.times.decode_ms, **near)
    assert (read.action is None) == (written.action is None)
    if written.action is not None:
        assert read.action.stamp_ns == written.action.stamp_ns
        assert read.action.values == pytest.approx(written.action.values, rel=1e-8, abs=1e-300, nan_ok=True)


@given(rows=st.lists(records, max_size=5))
@settings(max_examples=40, deadline=None)
def test_every_record_comes_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("table") / "cycles.csv"
    write(path, rows)
    read = read_table(path)
    assert len(read) == len(rows)
    for one, other in zip(read, rows, strict=True):
        assert_same(one, other)


@given(rows=st.lists(records, min_size=1, max_size=5))
@settings(max_examples=40, deadline=None)
def test_the_recorder_takes_any_record_and_the_summary_reads_it(tmp_path_factory, rows):
    recorder = CycleRecorder(tmp_path_factory.mktemp("runs"))
    for row in rows:
        recorder.record(row)
    recorder.close()
    assert (recorder.error, recorder.dropped) == ("", 0)
    read = read_table(recorder.folder / "cycles.csv")
    for one, other in zip(read, rows, strict=True):
        assert_same(one, other)
    if any(row.outcome is not Outcome.STOPPED for row in rows):
        to_text(summarise(read, {}))


def test_a_chunk_whose_draft_was_in_vain_has_as_many_steps_as_dimensions(tmp_path):
    """One pass over guesses that settles nothing, then the seven plain steps of eight tokens."""
    record = full_record()
    steps = tuple(float(step) for step in range(1, 9))
    write(tmp_path / "cycles.csv", [replace(record, times=replace(record.times, decode_ms=steps))])
    (row,) = csv.DictReader(io.StringIO((tmp_path / "cycles.csv").read_text(encoding="utf-8")))
    assert row["decode_8_ms"] == "8.0000" and row["beyond"] == ""
    (read,) = read_table(tmp_path / "cycles.csv")
    assert read.times.decode_ms == steps


def test_lists_and_errors_without_end_leave_a_table_that_can_be_read(tmp_path):
    record = full_record()
    endless = replace(
        record,
        tokens=(151_935,) * 500_000,
        action=Action(np.full(500_000, 1 / 3), 1),
        times=replace(record.times, decode_ms=(1.7e308,) * 500_000),
        error="x " * 500_000,
    )
    write(tmp_path / "cycles.csv", [endless, record])
    read, after = read_table(tmp_path / "cycles.csv")
    assert len(read.tokens) == len(read.action.values) == len(read.times.decode_ms) == 8 + MOST_BEYOND
    assert 0 < len(read.error) <= LONGEST_ERROR
    assert_same(after, record)


def test_a_dimension_may_be_called_as_a_column_is(tmp_path):
    path, names = tmp_path / "cycles.csv", ["stamp_ns", "error", "beyond", '1_ms,"']
    record = replace(full_record(), action=Action(np.array([0.5, 1.5, 2.5, 3.5]), 7), tokens=(1, 2, 3, 4))
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([columns(names), to_row(record, 4)])
    (read,) = read_table(path)
    assert read.action.stamp_ns == 7 and read.action.values.tolist() == [0.5, 1.5, 2.5, 3.5]


@pytest.mark.parametrize("version", ["nothing remembered", "seven decode steps, no cell beyond"])
def test_a_table_of_before_the_last_columns_is_read(tmp_path, version):
    """The error is the last cell, or the one beyond it."""
    record = replace(full_record(), remembered_before=None)
    newer = columns(ACTION_NAMES)
    beyond, step = newer.index("beyond"), newer.index("decode_8_ms")
    rows = [newer, to_row(record, 8)]
    if version == "nothing remembered":
        rows = [row[: beyond + 1] for row in rows]
    else:
        rows = [row[:step] + row[step + 1 : beyond] for row in rows]
    path = tmp_path / "cycles.csv"
    path.write_text("".join(",".join(row) + "\n" for row in rows), encoding="utf-8")
    (read,) = read_table(path)
    assert_same(read, record)


@given(rows=st.lists(records, min_size=1, max_size=4), data=st.data())
@settings(max_examples=40, deadline=None)
def test_table_that_ends_anywhere_keeps_every_whole_row(tmp_path_factory, rows, data):
    """A crash, a full disk: cut at any byte behind the header."""
    path = tmp_path_factory.mktemp("table") / "cycles.csv"
    write(path, rows)
    whole = path.read_bytes()
    header = whole.index(b"\n") + 1
    cut = data.draw(st.integers(header, len(whole)))
    path.write_bytes(whole[:cut])
    assert len(read_table(path)) == whole[header:cut].count(b"\n")


def test_one_column_holds_one_number_or_word():
    row = dict(zip(columns(ACTION_NAMES), to_row(full_record(), 8), strict=True))
    empty = {"error", "beyond", "decode_8_ms"}
    words = {"outcome", "source", "reason"}
    for name, cell in row.items():
        assert (cell == "") == (name in empty)
        if name not in words | empty:
            float(cell)
    assert row["token_gripper"] == "151935"
    assert row["action_dx"] == "0.25"
    assert row["decode_7_ms"] == "2.7000"
    assert row["reason"] == "within_budget"


def test_standard_csv_reader_finds_the_columns_by_name(tmp_path):
    write(tmp_path / "cycles.csv", [full_record()])
    (row,) = csv.DictReader(io.StringIO((tmp_path / "cycles.csv").read_text(encoding="utf-8")))
    assert row["predicted_ms"] == "24.5000"
    assert row["evicted_sequence"] == "3"
    assert (row["remembered"], row["remembered_before"], row["remembered_before_evicted"]) == ("0", "43", "2")


@pytest.mark.parametrize("text", ["", "cycle,outcome\n1,acted\n", "not a table", "\n\n"])
def test_file_that_is_no_cycle_table_is_refused_with_its_name(tmp_path, text):
    path = tmp_path / "other.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SourceError, match=r"other\.csv.*header"):
        read_table(path)


def test_field_too_long_for_a_table_is_refused_with_the_file_s_name(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("x" * (csv.field_size_limit() + 1) + "\n", encoding="utf-8")
    with pytest.raises(SourceError, match=r"other\.csv: expected a cycle table"):
        read_table(path)


def test_row_that_makes_no_sense_is_refused_with_its_line(tmp_path):
    path = tmp_path / "cycles.csv"
    write(path, [full_record(), full_record()])
    path.write_text(path.read_text(encoding="utf-8").replace("acted", "levitated", 1), encoding="utf-8")
    with pytest.raises(SourceError, match=r"line 2.*levitated"):
        read_table(path)


def full_record() -> CycleRecord:
    return CycleRecord(
        cycle=17,
        outcome=Outcome.ACTED,
        source=ActionSource.FRESH,
        action=Action(np.array([0.0, 0.25, -0.5, 1.0, 0.0, 0.0, 0.0, 1.0]), 1_700_000_000_000_000_001),
        frame_sequence=44,
        frame_stamp_ns=1_700_000_000_000_000_001,
        decision=Decision(True, Reason.WITHIN_BUDGET, 0.3, 24.5, 31.0),
        times=ChunkTimes(4064, 0.2, 5.0, (2.7,) * 7, completed=True, drafted=True),
        tokens=(151900, 151901, 151902, 151903, 151904, 151905, 151906, 151935),
        evicted_sequence=3,
        remembered_before=Remembered(43, 2, 0.25, 5.5),
        slots_in_use=4064,
        latency_ms=25.0,
    )
