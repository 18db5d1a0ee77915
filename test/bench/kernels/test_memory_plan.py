# SPDX-License-Identifier: Apache-2.0
"""The memory table of docs/explanation/quantisation.md is the plan's."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("cupy")

from vla_edge_ros.bench.kernels.memory_plan import memory_rows

DOCS = Path(__file__).resolve().parents[3] / "docs" / "explanation" / "quantisation.md"


def test_the_documented_table_is_the_plan():
    text = DOCS.read_text(encoding="utf-8")
    for row in memory_rows():
        line = " | ".join(str(value) for value in row.values())
        assert f"| {line} |" in text


def test_int8_keys_and_values_take_nine_bytes_for_sixteen():
    cache = {row["kv"]: row["kv_cache_mb"] for row in memory_rows()}
    assert cache == {"bf16": 112, "int8": 63}


def test_integers_leave_most_of_an_8_gb_board():
    totals = {(row["weights"], row["head"]): row["total_gb"] for row in memory_rows() if row["kv"] == "bf16"}
    assert totals["int4", "full_vocabulary"] < totals["int8", "full_vocabulary"] / 1.5
    assert totals["int8", "full_vocabulary"] < totals["bf16", "action"] / 1.8 < 2
