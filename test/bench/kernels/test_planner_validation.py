# SPDX-License-Identifier: Apache-2.0
"""The planner's validation: neither one case's failure nor a short budget stops another case."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("cupy")

from vla_edge_ros.bench.kernels import planner_validation
from vla_edge_ros.errors import EngineError
from vla_edge_ros.planner.boards import find_board

CASES = [("a", "bf16"), ("a", "int8"), ("b", "bf16")]


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def run(cases=CASES, seconds=100.0, takes=1.0, fails=()):
    clock, kept = Clock(), []

    def measure(model, weights, repeats):
        clock.now += takes
        if (model, weights) in fails:
            raise EngineError(f"no room for\n{model}")
        return {"chunk_ms": {"median": 1.0}, "weights": weights}

    rows = planner_validation.validate(
        cases, 5, seconds, measure, lambda rows: kept.append(len(rows)), clock=clock
    )
    return rows, kept


def test_one_case_that_fails_stops_no_other():
    rows, kept = run(fails=[("a", "int8")])
    assert [(row["model"], row["weights"]) for row in rows] == CASES and kept == [1, 2, 3]
    assert [row.get("error") for row in rows] == [None, "no room for a", None]


def test_what_would_end_too_late_is_left_out_and_said():
    rows, kept = run(seconds=2.5)
    assert kept == [1, 2, 3]
    assert [row.get("error") for row in rows] == [None, None, "left out: 2 of 2 s were over"]


def test_an_interrupt_is_no_case_s_error():
    def interrupted(model, weights, repeats):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        planner_validation.validate(CASES, 1, 10.0, interrupted, lambda rows: None)


def test_all_nine_cases_have_sources_and_a_refused_one_has_none():
    device = find_board("h200-sxm").device
    cases = [
        (model, weights) for model in planner_validation.MODELS for weights in planner_validation.FORMATS
    ]
    found = list(planner_validation.sources(cases, device))
    loading = len(list(planner_validation.sources([], device)))
    assert len(found) - loading >= 9 * 12 and loading >= 3
    assert len(list(planner_validation.sources([("tiny", "bf16")], device))) == loading


@pytest.fixture
def without_a_device(monkeypatch):
    """Nothing is compiled, measured or freed."""
    monkeypatch.setattr(planner_validation, "compile_all", lambda cases: None)
    monkeypatch.setattr(planner_validation, "give_back", lambda: None)

    def measure(model, weights, repeats):
        if model.endswith("7b"):
            raise MemoryError("7 B")
        return {"weights": weights, "chunk_ms": {"median": 1.0, "p99": 2.0, "max": 3.0}}

    monkeypatch.setattr(planner_validation, "measure", measure)


def test_the_file_has_a_row_a_case_errors_included(without_a_device, tmp_path, capsys):
    out = tmp_path / "out.json"
    assert planner_validation.main(["--json", str(out)]) == 1
    rows = json.loads(out.read_text())["rows"]
    assert len(rows) == 9 and [row["error"] for row in rows[-3:]] == ["MemoryError: 7 B"] * 3
    assert all("error" not in row for row in rows[:6])
    assert planner_validation.main(["--models", "qwen2.5-coder-0.5b"]) == 0


@pytest.mark.parametrize(
    "arguments", [["--models", "nine"], ["--weights", "fp8"], ["--repeats", "0"], ["--repeats", "x"]]
)
def test_arguments_that_are_none_are_refused(without_a_device, arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        planner_validation.main(arguments)
    assert caught.value.code == 2 and arguments[1] in capsys.readouterr().err


@pytest.mark.gpu
def test_a_small_size_is_measured_and_given_back():
    row = planner_validation.measure("qwen2.5-coder-0.5b", "int4", 3)
    planner_validation.give_back()
    assert row["slots_used"] == 4000 and row["decode_step"] in ("kernels", "persistent")
    assert 0 < row["decode_step_ms"]["median"] < row["chunk_ms"]["median"]
    assert row["pool_mb"] < row["device_peak_mb"]
