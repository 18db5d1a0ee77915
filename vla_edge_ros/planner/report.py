# SPDX-License-Identifier: Apache-2.0
"""An estimate as text for a terminal, and as a dictionary for a program."""

from __future__ import annotations

from typing import Any

from vla_edge_ros.planner.advice import hertz, sentence, verdict
from vla_edge_ros.planner.estimate import Estimate
from vla_edge_ros.planner.roofline import Span


def as_dict(made: Estimate, model: str, period_ms: float) -> dict[str, Any]:
    """All figures; times in ms, a range as its two ends, memory in bytes."""
    board = made.board
    return {
        "board": board.key,
        "measured_board": made.measured,
        "model": model,
        "weights": made.config.engine.weights,
        "kv": made.config.engine.kv,
        "decoding": made.config.action.decoding,
        "slots": made.config.cache.capacity_slots,
        "passes": made.passes,
        "decode_step": made.step_kind,
        "stages": [
            {
                "name": stage.name,
                "count": stage.count,
                "bytes": round(stage.bytes),
                "flop": round(stage.flop),
                "floor_ms": stage.floor_ms,
                "expected_ms": _ends(stage.expected),
            }
            for stage in made.stages
        ],
        "chunk_floor_ms": made.floor_ms,
        "chunk_ms": _ends(made.chunk),
        "chunk_p99_ms": _ends(made.chunk_p99),
        "shortest_period_ms": _ends(made.period),
        "memory_bytes": made.memory,
        "memory_total_bytes": made.memory_bytes,
        "memory_available_bytes": board.available_bytes,
        "period_ms": period_ms,
        "verdict": verdict(made, period_ms).value,
        "sentence": sentence(made, period_ms),
        "sources": [source.url for source in board.sources],
    }


def _ends(span: Span) -> list[float]:
    return [span.fast, span.slow]


def text(made: Estimate, model: str, period_ms: float) -> str:
    """A table of the stages, the memory, the rate, how it came about, and the sentence."""
    config = made.config
    lines = [
        f"{model} on {made.board.name}: {config.engine.weights} weights, {config.engine.kv} keys and values, "
        f"{config.cache.capacity_slots:,} slots, {_count(made.passes)} a chunk",
        "",
        f"{'stage':<26}{'passes':>7}{'GB':>8}{'GFLOP':>9}{'floor, ms':>12}   expected",
    ]
    for stage in made.stages:
        lines.append(
            f"{stage.name:<26}{stage.count:>7}{stage.bytes / 1e9:>8.3f}{stage.flop / 1e9:>9.2f}"
            f"{stage.floor_ms:>12.3f}   {stage.expected.words()}"
        )
    lines += [
        f"{'chunk':<50}{made.floor_ms:>12.3f}   {made.chunk.words()}, 99th percentile "
        f"{made.chunk_p99.words()}",
        f"shortest safe period {made.period.words()} (highest safe rate {hertz(made.period.slow)})",
        "",
    ]
    lines += [f"{name:<26}{size / 1e6:>10,.0f} MB" for name, size in made.memory.items()]
    lines += [
        f"{'memory in all':<26}{made.memory_bytes / 1e6:>10,.0f} MB of "
        f"{made.board.available_bytes / 1e6:,.0f} MB",
        "",
        *_how(made),
        "",
        sentence(made, period_ms),
    ]
    return "\n".join(lines)


def _count(passes: int) -> str:
    return "1 pass" if passes == 1 else f"{passes} passes"


def _how(made: Estimate) -> list[str]:
    """What the figures rest on."""
    lines = []
    if made.measured:
        lines.append("Fitted on runs of 1.5 B sizes on this board; other sizes are extrapolated.")
    else:
        lines += [
            "This board was never measured. Fast end: the share of its bandwidth that the measured one (an",
            "H200) reaches when it only reads, and its time a layer. Slow end: what that one's whole passes,",
            "overheads included, reach of theirs in the same format. Neither is a bound; the floor is.",
        ]
    lines.append("The node's share of the period is the H200 machine's; a slower processor takes more.")
    if made.board.shared_with_cpu:
        lines.append(
            f"Memory is the processor's too: {made.board.reserved_gb:g} GB are assumed to be taken by others."
        )
    ceiling = made.memory_bytes - made.memory["CUDA context"]
    if ceiling > 8192 << 20:
        lines.append(f"Set engine.vram_ceiling_mb to {-(-ceiling // (1 << 20))} or more.")
    return lines
