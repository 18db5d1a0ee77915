# SPDX-License-Identifier: Apache-2.0
"""Tables of the boards, and of what the planner says of them (``planner/*.json``)."""

from __future__ import annotations

from vla_edge_ros.bench.figures.data import ROOT, Row, rows, short, table
from vla_edge_ros.planner.boards import Board, boards
from vla_edge_ros.planner.coefficients import (
    FRAME,
    FRAME_AND_ACTION,
    KERNELS,
    PERSISTENT,
    coefficients,
)
from vla_edge_ros.planner.estimate import estimate, plan_config, slow_down
from vla_edge_ros.planner.fit import checks
from vla_edge_ros.planner.models import SIZES

VALIDATION = "planner-validation-h200"

_PASSES = {
    FRAME: "prefill",
    FRAME_AND_ACTION: "prefill with the action",
    PERSISTENT: "decode step, persistent",
    KERNELS: "decode step, kernels",
}

# Model, weights, decoding.
_ASKED = (
    ("qwen2.5-coder-0.5b", "int8", "autoregressive"),
    ("qwen2.5-coder-1.5b", "int8", "autoregressive"),
    ("qwen2.5-coder-1.5b", "int4", "autoregressive"),
    ("qwen2.5-coder-1.5b", "int8", "parallel"),
    ("qwen2.5-coder-3b", "int8", "parallel"),
    ("qwen2.5-coder-7b", "int4", "parallel"),
)


def board_table() -> str:
    """Published figures, each with its sources."""
    lines = []
    for board in boards().values():
        links = ", ".join(f"[{number}]({source.url})" for number, source in enumerate(board.sources, 1))
        shared = ", shared" if board.shared_with_cpu else ""
        lines.append(
            (
                f"`{board.key}`",
                board.name,
                f"{board.bandwidth_gb_s:g}",
                f"{board.memory_gb:g}{shared}",
                f"{board.bf16_tflops:g} / {board.int8_tops:g}",
                f"{board.multiprocessors}",
                f"{board.architecture / 10:.1f}",
                f"{board.power_w:g}",
                links,
            )
        )
    return table(
        (
            "`--board`", "name", "GB/s", "memory, GB", "BF16 TFLOPS / INT8 TOPS, dense", "multiprocessors",
            "compute capability", "W", "sources",
        ),
        lines,
    )  # fmt: skip


def _asked_heading(model: str, weights: str, decoding: str) -> str:
    how = ", parallel" if decoding == "parallel" else ""
    return f"{model.removeprefix('qwen2.5-coder-').upper()} {weights}{how}"


def _shortest(board: Board, model: str, weights: str, decoding: str) -> str:
    made = estimate(board, SIZES[model], plan_config(weights, decoding=decoding))
    return made.period.words().removesuffix(" ms") if made.memory_fits else "no room"


def period_table() -> str:
    """Shortest safe periods, in ms, of some models on every board."""
    header = ("board", *(_asked_heading(*asked) for asked in _ASKED))
    lines = [(board.name, *(_shortest(board, *asked) for asked in _ASKED)) for board in boards().values()]
    return table(header, lines)


def slow_down_table() -> str:
    """The measured board's passes over their floor: what the slow end of a range assumes."""
    fitted = coefficients()
    lines = [
        (
            weights,
            *(f"{slow_down(kind, weights, fitted):.1f}" for kind in fitted.passes),
        )
        for weights in fitted.passes[KERNELS].share
    ]
    return table(("weights", "decode step, persistent", "as kernels", "prefill", "with the action"), lines)


def check_table() -> str:
    """Runs of the same size that were not fitted: largest and smallest error by file and pass."""
    grouped: dict[tuple[str, str, str, str], list[float]] = {}
    for row in checks(coefficients()):
        key = (f"`{row['run']}.json`", row["weights"], row["kv"], _PASSES[row["pass"]])
        grouped.setdefault(key, []).append(row["error_percent"])
    lines = [(*key, _from_to(errors)) for key, errors in grouped.items()]
    return table(("file", "weights", "KV", "pass", "error, %"), lines)


def _from_to(errors: list[float]) -> str:
    ends = [f"{end:+.1f}" for end in (min(errors), max(errors))]
    return " to ".join(dict.fromkeys(ends))


def prediction_table() -> str:
    """Predictions of sizes that were never fitted, and beside them what was measured, where it was."""
    measured = _validation()
    lines = []
    for row in rows("planner-predictions"):
        found = measured.get((row["model"], row["weights"]), {})
        cells = [row["model"], row["weights"], row["decode_step"]]
        for key in ("prefill_ms", "decode_step_ms", "chunk_ms"):
            cells.append(_beside(row[key], found.get(key)))
        lines.append(cells)
    return table(("model", "weights", "decode step", "prefill, ms", "step, ms", "chunk, ms"), lines)


def _validation() -> dict[tuple[str, str], Row]:
    """Rows of the measurement by model and format; none before it was made."""
    if not (ROOT / "docs" / "benchmarks" / f"{VALIDATION}.json").is_file():
        return {}
    return {(row["model"], row["weights"]): row for row in rows(VALIDATION)}


def _beside(predicted: float, found: Row | None) -> str:
    if found is None:
        return f"{short(predicted)} / not measured"
    error = 100 * (predicted / found["median"] - 1)
    return f"{short(predicted)} / {short(found['median'])} ({error:+.0f} %)"


BOARD_FIGURES = {
    "boards": board_table,
    "board-periods": period_table,
    "planner-slow-down": slow_down_table,
    "planner-checks": check_table,
    "planner-predictions": prediction_table,
}
