# SPDX-License-Identifier: Apache-2.0
"""Fit the planner's coefficients to the H200's runs in ``docs/benchmarks``, and check them on others.

Run ``python -m vla_edge_ros.planner.fit`` in a checkout: it writes ``planner/coefficients.json`` and prints
how far the runs that were not fitted lie from it; ``--check`` changes nothing and fails where the file is out
of date.

Every run is of one size (1.5 B), so a time a layer and a share of the bandwidth cannot both be read from one
format. For each kind of pass the share in bf16 is therefore taken from elsewhere, the time a layer follows
from the bf16 run, and the shares of int8 and int4 follow from theirs: no degree of freedom is left, and these
runs are reproduced exactly. Whether the form holds for other sizes is for ``planner_validation`` to say.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.console import console_program
from vla_edge_ros.engines.cuda.plan.planner import plan
from vla_edge_ros.model.decoder_config import QWEN2_5_CODER_1_5B
from vla_edge_ros.planner.boards import Board, find_board
from vla_edge_ros.planner.coefficients import (
    FILE,
    FRAME,
    FRAME_AND_ACTION,
    KERNELS,
    PERSISTENT,
    PLANNED,
    Coefficients,
    PassCost,
)
from vla_edge_ros.planner.work import Work, pass_work

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"
FITTED, LIVE = "chunk-h200", "live-h200-16.7ms-no-drafts"
NOT_FITTED = ("chunk-layouts-h200", "chunk-parallel-h200", "chunk-int8-kv-h200")
BOARD = "h200-sxm"
FORMATS = ("bf16", "int8", "int4")
DRAFT_WORDS = {"held": "accepted", "wrong": "rejected"}  # of older files

# A step's stream is as fast as one without arithmetic, which each bf16 run measured beside it. A prefill's is
# not: its gate/up and down take 15.7 and 8.7 us a layer in bf16 for bytes that take 12.5 and 6.2 us at
# 4.4 TB/s (docs/explanation/engine-log.md, "Where a chunk's time goes now").
PREFILL_STREAM_TB_S = 4.4 * (12.5 + 6.2) / (15.7 + 8.7)

Row = dict[str, Any]


def rows(name: str) -> list[Row]:
    """This engine's rows of one file, in today's words."""
    stored = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["rows"]
    ours = [row for row in stored if row.get("engine", "vla_edge_ros") == "vla_edge_ros"]
    return [{**row, "draft": DRAFT_WORDS.get(row.get("draft"), row.get("draft"))} for row in ours]


def work_of(board: Board, weights: str, kv: str, kind: str, slots: int) -> Work:
    """What a pass of ``kind`` of the 1.5 B sizes reads and multiplies."""
    from vla_edge_ros.planner.estimate import plan_config  # it reads the file that this program writes

    config: VlaConfig = plan_config(weights, kv, "parallel" if kind == FRAME_AND_ACTION else "autoregressive")
    sizes = plan(QWEN2_5_CODER_1_5B, config, board.device)
    return pass_work(sizes, PLANNED[kind], slots)


def measured(all_rows: list[Row], kind: str, weights: str) -> tuple[float, int]:
    """Median ms of a pass of ``kind``, of the runs without drafts, and the slots that it saw."""
    draft = "accepted" if kind == FRAME_AND_ACTION else "off"
    key = "decode_step_ms" if kind in (PERSISTENT, KERNELS) else "prefill_ms"
    found = [
        row
        for row in all_rows
        if row["weights"] == weights
        and row["draft"] == draft
        and (row["decode_step"] == kind or kind in (FRAME, FRAME_AND_ACTION))
    ]
    return median(row[key]["median"] for row in found), found[0]["slots_used"]


def pass_cost(board: Board, all_rows: list[Row], kind: str, bf16_share: float) -> PassCost:
    """The time a layer from bf16 with ``bf16_share``, then the shares of the other formats."""
    peak = board.bandwidth_gb_s * 1e6  # bytes a ms
    bf16_ms, slots = measured(all_rows, kind, "bf16")
    work = work_of(board, "bf16", "bf16", kind, slots)
    layers_ms = bf16_ms - work.bytes / (bf16_share * peak)
    share = {}
    for weights in FORMATS:
        ms, slots = measured(all_rows, kind, weights)
        share[weights] = work_of(board, weights, "bf16", kind, slots).bytes / ((ms - layers_ms) * peak)
    return PassCost(layers_ms * 1000 / work.layers, share)


def fit() -> Coefficients:
    """From the files alone."""
    board, every = find_board(BOARD), rows(FITTED)
    plain = [row for row in every if row["draft"] == "off"]
    yardstick = [row["streaming_read_tb_s"] for row in plain if row["weights"] == "bf16"]
    best_share = median(yardstick) * 1000 / board.bandwidth_gb_s
    prefill_share = PREFILL_STREAM_TB_S * 1000 / board.bandwidth_gb_s
    shares = {PERSISTENT: best_share, KERNELS: best_share, FRAME: prefill_share}
    shares[FRAME_AND_ACTION] = prefill_share
    live = rows(LIVE)[0]
    chunk = next(r for r in plain if r["weights"] == "bf16" and r["decode_step"] == PERSISTENT)["chunk_ms"]
    return Coefficients(
        board=BOARD,
        sources={
            name: json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["commit"]
            for name in (FITTED, LIVE)
        },
        best_share=best_share,
        passes={kind: pass_cost(board, every, kind, share) for kind, share in shares.items()},
        embed_ms=median(row["vision_ms"]["median"] for row in plain),
        host_ms=median(_beside_passes(row) for row in plain),
        p99_factor=max(row["chunk_ms"]["p99"] / row["chunk_ms"]["median"] for row in plain),
        node_median_ms=live["latency_ms_median"] - chunk["median"],
        node_p99_ms=live["latency_ms_p99"] - chunk["p99"],
        context_bytes=round(max((row["device_peak_mb"] - row["pool_mb"]) * 2**20 for row in plain)),
    )


def _beside_passes(row: Row) -> float:
    """Of a chunk of eight action tokens: what its prefill and seven steps leave."""
    passes = row["prefill_ms"]["median"] + 7 * row["decode_step_ms"]["median"]
    return float(row["chunk_ms"]["median"] - passes)


def checks(fitted: Coefficients) -> Iterator[Row]:
    """Runs that were not fitted beside what the coefficients say: prefill and step, in percent."""
    board = find_board(fitted.board)
    for name in NOT_FITTED:
        for row in rows(name):
            if row["draft"] != "off":
                continue
            for kind, key in _kinds(row):
                work = work_of(board, row["weights"], row["kv"], kind, row["slots_used"])
                cost = fitted.passes[kind]
                peak = board.bandwidth_gb_s * 1e6 * cost.share[row["weights"]]
                ms = work.layers * cost.layer_us / 1000 + work.bytes / peak
                found = row[key]["median"]
                yield {
                    "run": name,
                    "weights": row["weights"],
                    "kv": row["kv"],
                    "pass": kind,
                    "predicted_ms": ms,
                    "measured_ms": found,
                    "error_percent": 100 * (ms / found - 1),
                }


def _kinds(row: Row) -> tuple[tuple[str, str], ...]:
    """Of each kind of pass in a chunk of ``row``: its name, and the row's key for its times."""
    if row.get("decoding") == "parallel":
        return ((FRAME_AND_ACTION, "prefill_ms"),)
    return (FRAME, "prefill_ms"), (row["decode_step"], "decode_step_ms")


@console_program
def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="fit", description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only tell whether the file is out of date")
    options = parser.parse_args(arguments)
    if not FOLDER.is_dir():
        parser.error(f"expected a checkout with the data files in {FOLDER}")
    fitted = fit()
    is_stale = not FILE.is_file() or FILE.read_text(encoding="utf-8") != fitted.text()
    if is_stale and not options.check:
        FILE.write_text(fitted.text(), encoding="utf-8")
    print(f"{'out of date' if options.check else 'written'}: {FILE}" if is_stale else f"as fitted: {FILE}")
    for row in checks(fitted):
        cells = (f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values())
        print("  ".join(cells))
    return 1 if is_stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
