# SPDX-License-Identifier: Apache-2.0
"""Cost traces for the admission simulator: what each cycle's chunk would take if it ran to its end.

Synthetic chunks are scaled from one profile; ``jitter`` is common to a chunk (clocks, contention last longer
than a stage) and ``stage_jitter`` is drawn for each stage. Seeded, so every run prints the same table.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.errors import SourceError
from vla_edge_ros.recording.cycle_table import read_table
from vla_edge_ros.types import ChunkTimes

Factors = NDArray[np.float64]  # [cycles, 2 + STEPS], or one cycle's row

STEPS = 7  # 8 action tokens; the prefill gives the first
FULL_SLOTS = 4032
# Shares of a chunk at full cache; attention's share, which grows with the slots in use, is a tenth of it.
VISION, PREFILL, DECODE = 0.01, 0.20, 0.79
ATTENTION = 0.1


@dataclass(frozen=True, slots=True)
class Trace:
    """``chunks``: one a cycle. ``warm_up``: what calibration would have measured before the first cycle."""

    name: str
    chunks: tuple[ChunkTimes, ...]
    warm_up: tuple[ChunkTimes, ...]
    elapsed_ms: float = 0.3  # grid point to admission: slot, age check


def chunk(
    full_ms: float,
    slots: int = FULL_SLOTS,
    factors: Factors | None = None,
    attention: float = ATTENTION,
) -> ChunkTimes:
    """A chunk that takes ``full_ms`` at full cache, run over ``slots``.

    ``factors`` ``[2 + STEPS]`` scale its stages. ``attention``: share of the cost that grows with the slots.
    """
    factors = np.ones(2 + STEPS) if factors is None else factors
    at_fill_ms = full_ms * (1.0 - attention + attention * slots / FULL_SLOTS)
    shares = np.array([VISION, PREFILL] + [DECODE / STEPS] * STEPS)
    vision, prefill, *decode = (at_fill_ms * shares * factors).tolist()
    return ChunkTimes(slots, vision, prefill, tuple(decode), completed=True)


def warm_up(full_ms: float, attention: float = ATTENTION) -> tuple[ChunkTimes, ...]:
    """Eight chunks each with an empty, a half full and a full cache, 0.5 % apart."""
    fills = (32, FULL_SLOTS // 2, FULL_SLOTS)
    spread = [0.98 + 0.005 * i for i in range(8)]
    return tuple(chunk(full_ms * factor, slots, attention=attention) for slots in fills for factor in spread)


def synthetic_traces(cycles: int, seed: int = 0) -> list[Trace]:
    """The scenarios of docs/explanation/admission.md, each of ``cycles`` cycles."""
    makers: list[tuple[str, float, Callable[[Factors, np.random.Generator], None]]] = [
        ("steady", 24.0, _rare_outliers),
        ("cold_start", 24.0, _cold_start),
        ("throttling", 24.0, _throttling),
        ("tight", 29.3, _tight),
        ("outliers", 24.0, _many_outliers),
        ("stall_in_last_step", 24.0, _last_step_stalls),
        ("step_change", 18.0, _step_change),
        ("contention", 22.0, _contention),
    ]
    traces = []
    for number, (name, mean_ms, disturb) in enumerate(makers):
        rng = np.random.default_rng([seed, number])
        factors = _jittered(rng, cycles, jitter=0.01)
        disturb(factors, rng)
        chunks = tuple(chunk(mean_ms, FULL_SLOTS, row) for row in factors)
        traces.append(Trace(name, chunks, warm_up(mean_ms)))
    return [*traces, _growing_cache(cycles, seed)]


def recorded_trace(path: str | Path, warm_up_chunks: int = 24) -> Trace:
    """Measured chunks of a file: a run's cycle table (.csv), or a JSON list of stage times.

    JSON: ``[{"slots_in_use": 4000, "vision_ms": 0.1, "prefill_ms": 0.9, "decode_ms": [0.8, ...]}, ...]``.
    The first ``warm_up_chunks`` (at most a fifth of all) stand in for the warm-up, which a recording lacks.
    Raises ``SourceError`` where the file holds fewer than ten whole chunks.
    """
    path = Path(path)
    if path.suffix == ".csv":
        times = [record.times for record in read_table(path) if record.times and record.times.completed]
    else:
        times = _read_json(path)
    if len(times) < 10:
        raise SourceError(f"{path}: expected at least 10 whole chunks with stage times, got {len(times)}")
    first = min(warm_up_chunks, len(times) // 5)
    return Trace(f"recorded:{path.stem}", tuple(times[first:]), tuple(times[:first]))


def _read_json(path: Path) -> list[ChunkTimes]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        return [
            ChunkTimes(
                int(row["slots_in_use"]),
                float(row.get("vision_ms", 0.0)),
                float(row["prefill_ms"]),
                tuple(float(ms) for ms in row["decode_ms"]),
                completed=True,
            )
            for row in rows
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SourceError(
            f"{path}: expected a JSON list of objects with slots_in_use, prefill_ms, decode_ms; "
            f"got {type(error).__name__}: {error}"
        ) from error


def _jittered(rng: np.random.Generator, cycles: int, jitter: float, stage_jitter: float = 0.01) -> Factors:
    """Factors ``[cycles, 2 + STEPS]`` around 1."""
    common = rng.normal(0.0, jitter, (cycles, 1))
    return np.exp(common + rng.normal(0.0, stage_jitter, (cycles, 2 + STEPS)))


def _slow(factors: Factors, rng: np.random.Generator, share: float, low: float, high: float) -> None:
    """Slow a random ``share`` of chunks as a whole, by a factor in [low, high]."""
    hit = rng.random(len(factors)) < share
    factors[hit] *= rng.uniform(low, high, (int(hit.sum()), 1))


def _rare_outliers(factors: Factors, rng: np.random.Generator) -> None:
    _slow(factors, rng, 0.003, 2.0, 6.0)


def _many_outliers(factors: Factors, rng: np.random.Generator) -> None:
    _slow(factors, rng, 0.05, 1.5, 10.0)


def _cold_start(factors: Factors, rng: np.random.Generator) -> None:
    _rare_outliers(factors, rng)
    factors[0] *= 900.0 / 24.0


def _throttling(factors: Factors, rng: np.random.Generator) -> None:
    """A fifth of the time, in four stretches, every chunk takes half as long again."""
    stretch, cycles = len(factors) // 20, len(factors)
    for begin in np.linspace(0.15, 0.85, 4) * cycles:
        factors[int(begin) : int(begin) + stretch] *= 1.5


def _tight(factors: Factors, rng: np.random.Generator) -> None:
    factors *= np.exp(rng.normal(0.0, 0.04, (len(factors), 1)))


def _last_step_stalls(factors: Factors, rng: np.random.Generator) -> None:
    """In one chunk of a hundred the last step takes ten times as long: nobody can see that coming."""
    factors[rng.random(len(factors)) < 0.01, -1] *= 10.0


def _step_change(factors: Factors, rng: np.random.Generator) -> None:
    """From the middle on every chunk takes 1.5 times as long, which still fits: 27 ms."""
    factors[len(factors) // 2 :] *= 1.5


def _contention(factors: Factors, rng: np.random.Generator) -> None:
    """Bursts of about ten cycles in which another process takes a share, about thirty cycles apart."""
    busy = False
    for row in factors:
        busy = rng.random() < (0.9 if busy else 1 / 30)
        row *= rng.uniform(1.3, 2.5) if busy else 1.0


def _growing_cache(cycles: int, seed: int) -> Trace:
    """The cache fills, frame by frame, until chunks no longer fit, and is flushed by a new instruction."""
    full_ms, attention = 34.0, 0.3
    factors = _jittered(np.random.default_rng([seed, 100]), cycles, jitter=0.005)
    fills = [32 * (1 + cycle % (FULL_SLOTS // 32)) for cycle in range(cycles)]
    chunks = tuple(chunk(full_ms, slots, row, attention) for slots, row in zip(fills, factors, strict=True))
    return Trace("growing_cache", chunks, warm_up(full_ms, attention))
