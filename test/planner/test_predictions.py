# SPDX-License-Identifier: Apache-2.0
"""The predictions that were committed before the sizes were run are complete, and follow from their file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vla_edge_ros.planner.coefficients import Coefficients, PassCost, coefficients
from vla_edge_ros.planner.predictions import FORMATS, MODELS, main, prediction_rows, text

FILE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks" / "planner-predictions.json"
STORED = json.loads(FILE.read_text(encoding="utf-8"))


def test_each_size_and_format_is_predicted_once():
    assert [(row["model"], row["weights"]) for row in STORED["rows"]] == [
        (model, weights) for model in MODELS for weights in FORMATS
    ]


def test_the_rows_follow_from_the_coefficients_beside_them():
    """A later fit changes neither; a later form of the planner would have to say that it did."""
    kept = dict(STORED["coefficients"])
    passes = {kind: PassCost(**cost) for kind, cost in kept.pop("passes").items()}
    made = prediction_rows(Coefficients(passes=passes, **kept))
    for row, again in zip(STORED["rows"], made, strict=True):
        assert again.keys() == row.keys()
        for key, value in row.items():
            assert again[key] == (value if isinstance(value, str) else pytest.approx(value, rel=1e-3)), key


@pytest.mark.parametrize("row", STORED["rows"], ids=lambda row: f"{row['model']}-{row['weights']}")
def test_a_prediction_lies_above_its_floor_and_adds_up(row):
    assert row["prefill_ms"] > row["prefill_floor_ms"] and row["decode_step_ms"] > row["decode_step_floor_ms"]
    beside = row["chunk_ms"] - row["prefill_ms"] - 7 * row["decode_step_ms"]
    assert beside == pytest.approx(STORED["coefficients"]["host_ms"], abs=1e-3)


def test_the_program_writes_the_file(tmp_path, capsys):
    main(["--json", str(tmp_path / "again.json")])
    assert (tmp_path / "again.json").read_text() == text(coefficients())
    assert len(capsys.readouterr().out.splitlines()) == 9
