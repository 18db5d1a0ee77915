# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vla_edge_ros.bench import report


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=300))
def test_quantiles_leave_at_most_one_percent_of_samples_above_p99(samples):
    result = report.quantiles(samples)
    assert result["max"] == max(samples)
    assert result["p99"] in samples
    assert sum(value > result["p99"] for value in samples) <= 0.01 * len(samples)
    assert sum(value >= result["p99"] for value in samples) >= 0.01 * len(samples)
    assert result["median"] == np.quantile(samples, 0.5, method="higher")


@pytest.mark.parametrize("bad", [[], [[1.0, 2.0]], 3.0])
def test_quantiles_refuse_anything_but_a_list_of_samples(bad):
    with pytest.raises(ValueError, match="expected a non-empty list of samples, got shape"):
        report.quantiles(bad)


def test_json_carries_command_machine_and_rows_in_a_new_folder(tmp_path):
    path = tmp_path / "new" / "slot.json"
    rows = [{"operation": "write", "median_ns": 1.5}]
    report.write_json(path, "python -m x --json slot.json", rows)
    document = json.loads(path.read_text())
    assert document["rows"] == rows
    assert document["command"] == "python -m x --json slot.json"
    assert document["machine"]["cores"] >= 1
    assert document["machine"]["cpu"]


def test_json_refuses_numbers_that_json_does_not_have(tmp_path):
    with pytest.raises(ValueError):
        report.write_json(tmp_path / "x.json", "x", [{"median_ns": float("nan")}])


def test_table_aligns_columns_and_leaves_missing_cells_empty(capsys):
    report.print_table([{"what": "write", "ns": 12}, {"what": "latest, held", "ns": 1234.5, "drops": 3}])
    header, first, second = capsys.readouterr().out.splitlines()
    assert header.split() == ["what", "ns", "drops"]
    assert first.index("12") + 2 == second.index("1234") + 4 == header.index("ns") + 2
    assert second.endswith("3")


def test_commit_is_that_of_the_checkout_unless_named(monkeypatch):
    monkeypatch.setenv("VLA_EDGE_COMMIT", "abc")
    assert report.commit() == "abc"
    monkeypatch.delenv("VLA_EDGE_COMMIT")
    assert re.fullmatch(r"[0-9a-f]{12}\+?|unknown", report.commit())
