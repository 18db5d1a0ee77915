# SPDX-License-Identifier: Apache-2.0
"""The page of the boards: every board in every table, each measurement beside its prediction."""

from __future__ import annotations

import pytest

from vla_edge_ros.bench.figures import board_tables
from vla_edge_ros.planner.boards import boards


def test_each_board_has_a_row_with_its_sources_and_one_with_its_periods():
    figures, periods = board_tables.board_table(), board_tables.period_table()
    for board in boards().values():
        assert f"`{board.key}`" in figures and f"| {board.name} |" in periods
        assert all(source.url in figures for source in board.sources)


def test_a_board_without_room_says_so_in_place_of_a_period():
    asked = ("qwen2.5-coder-7b", "bf16", "parallel")
    assert board_tables._shortest(boards()["rtx-4060"], *asked) == "no room"
    assert board_tables._shortest(boards()["h200-sxm"], *asked) == "10.8"


@pytest.fixture
def validated(monkeypatch):
    def pretend(rows):
        found = {(row["model"], row["weights"]): row for row in rows}
        monkeypatch.setattr(board_tables, "_validation", lambda: found)

    return pretend


def test_predictions_stand_alone_before_they_are_measured(validated):
    validated([])
    assert board_tables.prediction_table().count("not measured") == 27


def test_a_measurement_stands_beside_its_prediction_with_the_error(validated):
    times = {key: {"median": 2.0} for key in ("prefill_ms", "decode_step_ms", "chunk_ms")}
    validated(
        [
            {"model": "qwen2.5-coder-3b", "weights": "bf16", **times},
            {"model": "qwen2.5-coder-7b", "weights": "int4", "error": "no room"},
        ]
    )
    table = board_tables.prediction_table()
    assert "| qwen2.5-coder-3b | bf16 | kernels | 2.52 / 2.00 (+26 %) | 1.80 / 2.00 (-10 %) |" in table
    assert table.count("not measured") == 24
