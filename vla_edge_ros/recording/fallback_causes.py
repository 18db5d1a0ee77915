# SPDX-License-Identifier: Apache-2.0
"""Why cycles had no fresh action: the causes of a run with their figures, and the episodes they made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median

from vla_edge_ros.types import ActionSource, CycleRecord, Outcome


@dataclass(frozen=True, slots=True)
class Cause:
    """``cycles`` that fell back for one reason; ``text`` explains it in words and figures."""

    name: str
    cycles: int
    text: str


@dataclass(frozen=True, slots=True)
class Episode:
    """Cycles in a row without a fresh action."""

    first_cycle: int
    cycles: int
    text: str


def cause_of(record: CycleRecord) -> str:
    """One word or two for why a cycle fell back: its outcome, and the reason of a refusal."""
    if record.outcome is Outcome.REFUSED and record.decision is not None:
        return f"{record.outcome.value}/{record.decision.reason.value}"
    return record.outcome.value


def causes(cycles: Sequence[CycleRecord]) -> tuple[Cause, ...]:
    """Every cause of a run, the most frequent first; they add up to the cycles without a fresh action."""
    by_name: dict[str, list[CycleRecord]] = {}
    for record in cycles:
        if record.source is not ActionSource.FRESH:
            by_name.setdefault(cause_of(record), []).append(record)
    overruns = sum(record.skipped_cycles > 0 for record in cycles)
    skipped = sum(record.skipped_cycles for record in cycles)
    found = [
        Cause(name, len(records), f"{_explain(records, overruns, skipped)} ({_answers(records)})")
        for name, records in by_name.items()
    ]
    return tuple(sorted(found, key=lambda cause: -cause.cycles))


def episodes(cycles: Sequence[CycleRecord]) -> tuple[Episode, ...]:
    """Every stretch of cycles without a fresh action, in order of time."""
    found = []
    for is_fresh, group in groupby(cycles, key=lambda record: record.source is ActionSource.FRESH):
        records = list(group)
        if is_fresh:
            continue
        names = Counter(cause_of(record) for record in records)
        why = ", ".join(f"{name} {count}" for name, count in names.most_common())
        first, last = records[0].cycle, records[-1].cycle
        found.append(Episode(first, len(records), f"cycles {first}..{last}: {why} ({_answers(records)})"))
    return tuple(found)


def _answers(records: Sequence[CycleRecord]) -> str:
    counts = Counter(record.source.value for record in records)
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())


def _explain(records: Sequence[CycleRecord], overruns: int, skipped: int) -> str:
    outcome = records[0].outcome
    if outcome is Outcome.NO_FRAME_YET:
        return "the camera had not sent a frame yet"
    if outcome is Outcome.NO_NEW_FRAME:
        return "the newest frame had been used: the camera is slower than the control period"
    if outcome is Outcome.STALE_FRAME:
        return f"the newest frame was too old, up to {max(r.frame_age_ms for r in records):.0f} ms"
    if outcome is Outcome.REFUSED:
        return _explain_refusals(records)
    if outcome is Outcome.ABORTED:
        stages = Counter(_last_stage(record) for record in records)
        aborted = ", ".join(f"{stage} {count}" for stage, count in stages.most_common())
        return f"the rest of the chunk would have ended too late; aborted {aborted}"
    if outcome is Outcome.LATE:
        return (
            f"the reasoning thread was busy when the watchdog answered; it slept through {skipped} grid "
            f"points in {overruns} overruns"
        )
    if outcome is Outcome.ENGINE_ERROR:
        errors = Counter(record.error for record in records)
        return "; ".join(f"{text} ({count} times)" for text, count in errors.most_common(5))
    return "no fresh action was published"


def _explain_refusals(records: Sequence[CycleRecord]) -> str:
    decisions = [record.decision for record in records if record.decision is not None]
    if not decisions:
        return "refused; the decision was not recorded"
    elapsed_ms = median(decision.elapsed_ms for decision in decisions)
    predicted_ms = median(decision.predicted_ms for decision in decisions)
    return (
        f"median {elapsed_ms:.1f} ms elapsed and {predicted_ms:.1f} ms predicted, "
        f"budget {decisions[0].budget_ms:.1f} ms"
    )


def _last_stage(record: CycleRecord) -> str:
    times = record.times
    if times is None or times.total_ms == 0:
        return "before vision"
    if times.decode_ms:
        return f"after decode step {len(times.decode_ms)}"
    return "after prefill" if times.prefill_ms > 0 else "after vision"
