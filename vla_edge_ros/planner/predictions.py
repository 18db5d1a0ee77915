# SPDX-License-Identifier: Apache-2.0
"""Predict an H200 in sizes that nobody has run, before somebody runs them.

Run ``python -m vla_edge_ros.planner.predictions --json docs/benchmarks/planner-predictions.json``. The file
keeps the coefficients that it was made with: a later fit must not change what was said before the
measurement, which ``python -m vla_edge_ros.bench.kernels.planner_validation`` makes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from vla_edge_ros.console import console_program
from vla_edge_ros.planner.boards import find_board
from vla_edge_ros.planner.coefficients import Coefficients, coefficients
from vla_edge_ros.planner.estimate import DECODE_STEP, FITTED_SLOTS, PREFILL, estimate, plan_config
from vla_edge_ros.planner.models import SIZES

BOARD = "h200-sxm"
MODELS = ("qwen2.5-coder-0.5b", "qwen2.5-coder-3b", "qwen2.5-coder-7b")
FORMATS = ("bf16", "int8", "int4")


def prediction_rows(fitted: Coefficients) -> list[dict[str, Any]]:
    """A row a size and format, in the words of ``planner_validation``; times in ms, rounded to 0.1 us."""
    rows = []
    for model in MODELS:
        for weights in FORMATS:
            made = estimate(
                find_board(BOARD), SIZES[model], plan_config(weights), slots=FITTED_SLOTS, fitted=fitted
            )
            stage = {each.name: each for each in made.stages}
            rows.append(
                {
                    "board": BOARD,
                    "model": model,
                    "weights": weights,
                    "slots_used": FITTED_SLOTS,
                    "decode_step": made.step_kind,
                    "prefill_ms": round(stage[PREFILL].expected.fast, 4),
                    "decode_step_ms": round(stage[DECODE_STEP].expected.fast, 4),
                    # Without the embedding: `bench.kernels.chunk` counts a chunk from the prefill on.
                    "chunk_ms": round(made.chunk.fast - stage["embed"].expected.fast, 4),
                    "prefill_floor_ms": round(stage[PREFILL].floor_ms, 4),
                    "decode_step_floor_ms": round(stage[DECODE_STEP].floor_ms, 4),
                    "memory_mb": round(made.memory_bytes / 2**20, 1),
                }
            )
    return rows


def text(fitted: Coefficients) -> str:
    """The file's text."""
    document = {
        "command": "python -m vla_edge_ros.planner.predictions",
        "coefficients": json.loads(fitted.text()),
        "rows": prediction_rows(fitted),
    }
    return json.dumps(document, indent=2) + "\n"


@console_program
def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="predictions", description=__doc__.partition("\n")[0])
    parser.add_argument("--json", default="", help="write the rows, and the coefficients, here")
    chosen = parser.parse_args(arguments)
    for row in prediction_rows(coefficients()):
        print("  ".join(str(value) for value in row.values()))
    if chosen.json:
        Path(chosen.json).write_text(text(coefficients()), encoding="utf-8")


if __name__ == "__main__":
    main()
