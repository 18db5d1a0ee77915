# SPDX-License-Identifier: Apache-2.0
"""The coefficients are what the data files give, and runs that were not fitted lie near them."""

from __future__ import annotations

import pytest

from vla_edge_ros.planner import fit
from vla_edge_ros.planner.boards import find_board
from vla_edge_ros.planner.coefficients import FILE, FRAME, KERNELS, PERSISTENT, coefficients

FORMATS = ("bf16", "int8", "int4")


def test_the_file_is_what_the_fit_writes():
    assert FILE.read_text(encoding="utf-8") == fit.fit().text()


def test_a_stale_file_is_told_and_written_anew(tmp_path, monkeypatch, capsys):
    copy = tmp_path / "coefficients.json"
    monkeypatch.setattr(fit, "FILE", copy)
    assert fit.main(["--check"]) == 1 and not copy.exists()
    assert fit.main([]) == 0 and copy.read_text() == FILE.read_text()
    assert fit.main(["--check"]) == 0 and "as fitted" in capsys.readouterr().out


def test_known_coefficients_come_back_from_runs_that_follow_them():
    """Rows made from a time a layer and shares of our own, by the form alone."""
    board, layer_us, shares = find_board("h200-sxm"), 12.5, {"bf16": 0.8, "int8": 0.5, "int4": 0.3}
    rows = []
    for weights, share in shares.items():
        work = fit.work_of(board, weights, "bf16", PERSISTENT, 4000)
        step_ms = work.layers * layer_us / 1000 + work.bytes / (share * board.bandwidth_gb_s * 1e6)
        rows.append(
            {
                "weights": weights,
                "draft": "off",
                "decode_step": PERSISTENT,
                "slots_used": 4000,
                "decode_step_ms": {"median": step_ms},
            }
        )
    cost = fit.pass_cost(board, rows, PERSISTENT, 0.8)
    assert cost.layer_us == pytest.approx(layer_us)
    assert cost.share == pytest.approx(shares)


def test_shares_are_shares_and_fall_with_the_width_of_a_weight():
    for kind, cost in coefficients().passes.items():
        assert 1 > cost.share["bf16"] > cost.share["int8"] > cost.share["int4"] > 0, kind
        assert cost.layer_us > 0
    passes = coefficients().passes
    assert passes[PERSISTENT].layer_us < passes[KERNELS].layer_us < passes[FRAME].layer_us
    assert 0.85 < coefficients().best_share < 1 <= coefficients().p99_factor


def test_runs_that_were_not_fitted_lie_within_their_errors():
    """Two builds by turns repeat the fitted rows; int8 keys and values are as fast as bytes say, less 7 %."""
    checks = list(fit.checks(coefficients()))
    assert {row["run"] for row in checks} == set(fit.NOT_FITTED)
    same, other_kv = ([row for row in checks if (row["kv"] == "bf16") is same] for same in (True, False))
    assert same and all(abs(row["error_percent"]) < 2 for row in same)
    assert other_kv and all(-7 < row["error_percent"] < 0 for row in other_kv)
