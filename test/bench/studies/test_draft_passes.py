# SPDX-License-Identifier: Apache-2.0
"""Passes on recorded actions: counted by hand, and by the order that any draft must keep."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vla_edge_ros.bench.studies.draft_passes import (
    DRAFTS,
    draft_rows,
    extrapolated,
    main,
    steady_extrapolated,
)
from vla_edge_ros.recording.cycle_table import columns, to_row
from vla_edge_ros.types import CycleRecord, Outcome


def by_draft(actions):
    return {row["draft"]: row for row in draft_rows("run", actions)}


def test_a_still_arm_takes_one_pass_and_the_first_action_as_many_as_tokens():
    rows = by_draft([(5, 6, 7)] * 10)
    assert rows["none"]["passes_mean"] == 3
    assert rows["last_action"]["shares"] == {"1": 0.9, "3": 0.1}


def test_steady_motion_is_met_by_extrapolation_only():
    actions = [(10 + at, 50, 90 - 2 * at, 3) for at in range(40)]
    rows = by_draft(actions)
    assert rows["last_action"]["shares"]["3"] == pytest.approx(39 / 40)  # two of the first three are wrong
    for name in ("extrapolated", "steady_extrapolated"):
        assert rows[name]["shares"]["1"] >= 37 / 40


def test_a_dimension_that_jumps_once_is_not_extrapolated_by_the_steady_kind():
    assert extrapolated([(1,), (1,), (9,)]) == (17,)
    assert steady_extrapolated([(1,), (1,), (9,)]) == (9,)


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 4), min_size=1, max_size=30))
def test_no_draft_takes_more_passes_than_none(actions):
    for row in draft_rows("run", actions):
        assert 1 <= row["passes_mean"] <= 4
        assert sum(row["shares"].values()) == pytest.approx(1)


def test_reads_recorded_tables_and_refuses_one_without_actions(tmp_path, capsys):
    names = ("x", "y")
    table = tmp_path / "cycles.csv"
    records = [CycleRecord(1, Outcome.ACTED, tokens=(3, 4)), CycleRecord(2, Outcome.STALE_FRAME)]
    table.write_text(
        "\n".join(",".join(row) for row in [columns(names), *(to_row(r, 2) for r in records)]) + "\n"
    )
    main([str(table)])
    printed = capsys.readouterr().out
    assert all(name in printed for name in DRAFTS)
    table.write_text(",".join(columns(names)) + "\n")
    with pytest.raises(SystemExit):
        main([str(table)])
