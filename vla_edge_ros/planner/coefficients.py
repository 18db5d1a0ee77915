# SPDX-License-Identifier: Apache-2.0
"""What the fit found on the measured board: ``coefficients.json``, which ``planner.fit`` writes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("coefficients.json")

# Kinds of passes. A step is one kernel for all layers, or a graph of kernels; a frame's pass has rows of an
# action behind it where its tokens are decoded in parallel.
PERSISTENT, KERNELS, FRAME, FRAME_AND_ACTION = "persistent", "kernels", "frame", "frame_and_action"
# Their names in the engine's plan.
PLANNED = {PERSISTENT: "decode", KERNELS: "decode", FRAME: "prefill", FRAME_AND_ACTION: "drafted"}


@dataclass(frozen=True, slots=True)
class PassCost:
    """``layer_us``: what a layer takes however small it is: kernels that hand over, barriers, latencies.

    ``share``: of the peak bandwidth that the weights' stream reaches beside it, by format of the weights.
    """

    layer_us: float
    share: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficients:
    """Times are medians. ``passes`` by kind.

    ``best_share``: of the peak, of the weights' stream without arithmetic. ``embed_ms``: a frame's embedding,
    whose bytes are too few to count. ``host_ms``: what a chunk takes beside its passes. ``p99_factor``: the
    worst p99 of a chunk over its median. ``node_median_ms``, ``node_p99_ms``: what the whole graph adds to
    the same quantile of a chunk. ``context_bytes``: device memory outside the engine's buffers, above all
    CUDA's context.
    """

    board: str
    sources: dict[str, str]
    best_share: float
    passes: dict[str, PassCost]
    embed_ms: float
    host_ms: float
    p99_factor: float
    node_median_ms: float
    node_p99_ms: float
    context_bytes: int

    def text(self) -> str:
        """As the file keeps it: six digits are more than two runs have in common."""
        return json.dumps(_rounded(asdict(self)), indent=2) + "\n"


def _rounded(value: object) -> object:
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return float(f"{value:.6g}") if isinstance(value, float) else value


@cache
def coefficients() -> Coefficients:
    """Those of the file."""
    stored = json.loads(FILE.read_text(encoding="utf-8"))
    passes = {kind: PassCost(**cost) for kind, cost in stored.pop("passes").items()}
    return Coefficients(passes=passes, **stored)
