# SPDX-License-Identifier: Apache-2.0
"""Does it fit, and what would: one sentence that names the first remedy that helps.

Remedies are tried in the order of what they ask of the user: weights in int8, which a trained model hardly
notices; a shorter memory; int4, which is to be measured on the task; parallel decoding, for which a model
must have been trained; and what of these go together. A longer period is named beside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from math import ceil

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.errors import ConfigError, EngineError
from vla_edge_ros.planner.boards import Board
from vla_edge_ros.planner.estimate import Estimate, estimate, with_changes
from vla_edge_ros.sequence import Decoding

_NARROWER = {"bf16": ("int8", "int4"), "int8": ("int4",), "int4": ()}
_FEWER_SLOTS = (2048, 1024)


class Verdict(Enum):
    """Of one estimate against a period."""

    FITS = "fits"
    MAY_FIT = "may fit"  # the period lies within the range of a board that was never measured
    TOO_SLOW = "too slow"
    NO_ROOM = "too large"


@dataclass(frozen=True, slots=True)
class Remedy:
    """``words``: what to set, after "with"."""

    words: str
    made: Estimate
    verdict: Verdict


def verdict(made: Estimate, period_ms: float) -> Verdict:
    """Memory first: a model that has no room is not slow."""
    if not made.memory_fits:
        return Verdict.NO_ROOM
    if period_ms >= made.period.slow:
        return Verdict.FITS
    return Verdict.MAY_FIT if period_ms >= made.period.fast else Verdict.TOO_SLOW


def find_remedy(made: Estimate, period_ms: float) -> Remedy | None:
    """The first that fits; else the first that may, where ``made`` cannot; else the first that has room."""
    judged = verdict(made, period_ms)
    next_best: dict[Verdict, Remedy] = {}
    for words, config in _candidates(made.config):
        other = _estimate(made, config)
        if other is None:
            continue
        remedy = Remedy(words, other, verdict(other, period_ms))
        if remedy.verdict is Verdict.FITS:
            return remedy
        next_best.setdefault(remedy.verdict, remedy)
    if judged is Verdict.MAY_FIT:
        return None
    if judged is Verdict.NO_ROOM and Verdict.MAY_FIT not in next_best:
        return next_best.get(Verdict.TOO_SLOW)
    return next_best.get(Verdict.MAY_FIT)


def _estimate(made: Estimate, config: VlaConfig) -> Estimate | None:
    try:
        return estimate(made.board, made.decoder, config)
    except (ConfigError, EngineError):  # the kernels do not have these sizes: no remedy
        return None


def _candidates(config: VlaConfig) -> Iterator[tuple[str, VlaConfig]]:
    weights, slots = config.engine.weights, config.cache.capacity_slots
    here = config.layout.decoding.value
    narrower, fewer = _NARROWER[weights], [each for each in _FEWER_SLOTS if each < slots]
    is_sequential = config.layout.decode_steps > 0
    choices = [(each, here, slots) for each in narrower if each == "int8"]
    choices += [(weights, here, each) for each in fewer]
    choices += [(each, here, slots) for each in narrower if each == "int4"]
    choices += [(each, here, count) for each in narrower for count in fewer]
    if is_sequential:
        parallel = Decoding.PARALLEL.value
        choices += [(each, parallel, slots) for each in (weights, *narrower)]
        choices += [(each, parallel, count) for each in (weights, *narrower) for count in fewer]
    for bits, decoding, count in choices:
        try:
            changed = with_changes(config, weights=bits, decoding=decoding, slots=count)
        except ConfigError:  # too few slots for this frame
            continue
        words = [
            f"{bits} weights" if bits != weights else "",
            "parallel decoding (a model trained for it)" if decoding != here else "",
            f"{count:,} slots" if count != slots else "",
        ]
        yield " and ".join(each for each in words if each), changed


def sentence(made: Estimate, period_ms: float) -> str:
    """What fits or does not, on this board, and what would."""
    judged = verdict(made, period_ms)
    board, period = made.board, f"{period_ms:g} ms"
    if judged is Verdict.FITS:
        return (
            f"Fits: a chunk takes {made.chunk.words()} on {board.name}, so a period of {period} is enough; "
            f"the shortest is {made.period.words()} ({hertz(made.period.slow)})."
        )
    if judged is Verdict.NO_ROOM:
        problem = (
            f"Does not fit into the memory of {board.name}: {made.memory_bytes / 1e9:.1f} GB are needed, "
            f"{board.available_bytes / 1e9:.1f} GB are there"
        )
    elif judged is Verdict.TOO_SLOW:
        problem = f"Does not fit into {period}: {_why_slow(made, period_ms)}"
    else:
        problem = (
            f"May fit into {period}: on {board.name}, which was never measured, the shortest period is "
            f"{made.period.words()}"
        )
    return f"{problem}; {_way_out(made, period_ms, judged)}."


def _why_slow(made: Estimate, period_ms: float) -> str:
    board: Board = made.board
    if period_ms < made.floor_ms:
        read_gb = sum(stage.count * stage.bytes for stage in made.stages) / 1e9
        return (
            f"a chunk reads {read_gb:.2f} GB, which alone takes {made.floor_ms:.1f} ms at the "
            f"{board.bandwidth_gb_s:g} GB/s of {board.name}"
        )
    takes, shortest = made.chunk.words(), made.period.words()
    return f"a chunk takes {takes} on {board.name}, and the shortest period is {shortest}"


def _way_out(made: Estimate, period_ms: float, judged: Verdict) -> str:
    remedy = find_remedy(made, period_ms)
    longer = f"a period of {_up(made.period.slow)} ms or more"
    if remedy is None:
        if judged is Verdict.MAY_FIT:
            return f"measure it there, or take {longer}"
        if judged is Verdict.NO_ROOM:
            return "no setting makes room: it takes a smaller model or another board"
        return f"no setting mends that: it takes {longer}, a smaller model or a board with more bandwidth"
    takes = remedy.made.period.words()
    if judged is Verdict.NO_ROOM and remedy.verdict is Verdict.TOO_SLOW:
        return (
            f"with {remedy.words} it has room ({remedy.made.memory_bytes / 1e9:.1f} GB), "
            f"for a period of {_up(remedy.made.period.slow)} ms or more"
        )
    would = "it would" if remedy.verdict is Verdict.FITS else "it may (measure it there)"
    also = "" if judged is Verdict.NO_ROOM else f", and {longer} would"
    return f"with {remedy.words} {would} (shortest period {takes}){also}"


def hertz(period_ms: float) -> str:
    """``80 Hz``; below 10 with a digit more."""
    rate = 1000 / period_ms
    return f"{rate:.0f} Hz" if rate >= 9.95 else f"{rate:.1f} Hz"


def _up(ms: float) -> str:
    return f"{ceil(ms):,}"
