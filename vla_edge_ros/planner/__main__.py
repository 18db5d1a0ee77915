# SPDX-License-Identifier: Apache-2.0
"""Whether a model fits a board and a period, before either is bought.

``ros2 run vla_edge_ros plan --board orin-nano-super --model FOLDER --weights int4 --period-ms 33``, or
``python -m vla_edge_ros.planner`` with the same arguments. Needs no GPU and no CuPy.
"""

from __future__ import annotations

import argparse
import json
import math
import sys

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.console import console_program
from vla_edge_ros.errors import ConfigError, VlaEdgeError
from vla_edge_ros.planner import report
from vla_edge_ros.planner.boards import boards, find_board
from vla_edge_ros.planner.estimate import estimate, plan_config
from vla_edge_ros.planner.models import SIZES, find_model


@console_program
def main(arguments: list[str] | None = None) -> int:
    """0 where an answer was printed, 2 with one line on standard error where the question is none."""
    parser = argparse.ArgumentParser(prog="plan", description=__doc__.partition("\n")[0])
    parser.add_argument("--board", required=True, help=", ".join(boards()))
    parser.add_argument(
        "--model", default="qwen2.5-coder-1.5b", help=f"a folder with config.json, or {', '.join(SIZES)}"
    )
    parser.add_argument("--weights", default="bf16", help="engine.weights: bf16, int8, int4")
    parser.add_argument("--kv", default="bf16", help="engine.kv: bf16, int8")
    parser.add_argument("--decoding", default="autoregressive", help="action.decoding, or parallel")
    parser.add_argument("--slots", default="4096", help="cache.capacity_slots")
    parser.add_argument("--period-ms", default="33", help="timing.period_ms")
    parser.add_argument("--json", action="store_true", help="print all figures as JSON")
    chosen = parser.parse_args(arguments)
    try:
        period_ms, board = _period(chosen.period_ms), find_board(chosen.board)
        decoder = find_model(chosen.model)
        made = estimate(board, decoder, _config(chosen, decoder.max_position_embeddings))
    except VlaEdgeError as error:
        print(f"plan: {error}", file=sys.stderr)
        return 2
    if chosen.json:
        print(json.dumps(report.as_dict(made, chosen.model, period_ms), indent=2, allow_nan=False))
    else:
        print(report.text(made, chosen.model, period_ms))
    return 0


def _config(chosen: argparse.Namespace, positions: int) -> VlaConfig:
    slots = int(chosen.slots) if chosen.slots.isascii() and chosen.slots.isdigit() else 0
    if not 0 < slots <= positions:
        raise ConfigError(
            f"--slots must be a number from 1 to the model's {positions} positions, got {chosen.slots!r}"
        )
    return plan_config(chosen.weights, chosen.kv, chosen.decoding, slots)


def _period(text: str) -> float:
    try:
        period_ms = float(text)
    except ValueError:
        period_ms = math.nan
    if not 0 < period_ms < math.inf:
        raise ConfigError(f"--period-ms must be a number above 0, got {text!r}")
    return period_ms


if __name__ == "__main__":
    sys.exit(main())
