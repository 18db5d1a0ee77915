# SPDX-License-Identifier: Apache-2.0
"""The table of a run: what is written comes back, and what a crash leaves can be read."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vla_edge_ros.config import ACTION_NAMES
from vla_edge_ros.errors import SourceError
from vla_edge_ros.recording.cycle_table import columns, read_table, to_row
from vla_edge_ros.types import Action, ActionSource, ChunkTimes, CycleRecord, Decision, Outcome, Reason

counts = st.integers(0, 2**62)
ms = st.floats(-1e6, 1e6)
actions = st.builds(
    Action,
    st.lists(st.floats(-1e6, 1e6), min_size=8, max_size=8).map(lambda values: np.array(values)),
    counts,
)
records = st.builds(
    CycleRecord,
    cycle=st.integers(-1, 2**62),
    outcome=st.sampled_from(Outcome),
    source=st.sampled_from(ActionSource),
    action=st.none() | actions,
    repeat_streak=counts,
    frame_sequence=counts,
    frame_stamp_ns=counts,
    frame_age_ms=ms,
    decision=st.none() | st.builds(Decision, st.booleans(), st.sampled_from(Reason), ms, ms, ms),
    times=st.none()
    | st.builds(ChunkTimes, counts, ms, ms, st.lists(ms, max_size=7).map(tuple), completed=st.booleans()),
    tokens=st.lists(st.integers(0, 200_000), max_size=8).map(tuple),
    evicted_sequence=st.none() | counts,
    slots_in_use=counts,
    skipped_cycles=counts,
    latency_ms=ms,
    error=st.text(max_size=40),
)


def write(path, rows) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns(ACTION_NAMES))
        writer.writerows(to_row(record, 8) for record in rows)


def assert_same(read: CycleRecord, written: CycleRecord) -> None:
    """Equal, times to 0.1 us and values to nine digits; an error's white space is one space."""
    for name in ("cycle", "outcome", "source", "repeat_streak", "frame_sequence", "frame_stamp_ns", "tokens"):
        assert getattr(read, name) == getattr(written, name)
    for name in ("evicted_sequence", "slots_in_use", "skipped_cycles"):
        assert getattr(read, name) == getattr(written, name)
    near = {"abs": 5.1e-5, "rel": 1e-9}
    assert read.latency_ms == pytest.approx(written.latency_ms, **near)
    assert read.frame_age_ms == pytest.approx(written.frame_age_ms, **near)
    assert read.error.split() == written.error.replace("\0", " ").split()
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
        assert read.times.slots_in_use == written.times.slots_in_use
        assert read.times.prefill_ms == pytest.approx(written.times.prefill_ms, **near)
        assert read.times.decode_ms == pytest.approx(written.times.decode_ms, **near)
    assert (read.action is None) == (written.action is None)
    if written.action is not None:
        assert read.action.stamp_ns == written.action.stamp_ns
        assert read.action.values == pytest.approx(written.action.values, rel=1e-8, abs=1e-300)


@given(rows=st.lists(records, max_size=5))
@settings(max_examples=40, deadline=None)
def test_every_record_comes_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("table") / "cycles.csv"
    write(path, rows)
    read = read_table(path)
    assert len(read) == len(rows)
    for one, other in zip(read, rows, strict=True):
        assert_same(one, other)


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
    words = {"outcome", "source", "reason", "error"}
    for name, cell in row.items():
        if name not in words:
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
        slots_in_use=4064,
        latency_ms=25.0,
    )
