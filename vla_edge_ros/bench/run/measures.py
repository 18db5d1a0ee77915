# SPDX-License-Identifier: Apache-2.0
"""The numbers of one policy, out of its trials: what cycles, memory samples and episodes say."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from vla_edge_ros.bench.run.metrics import frame_to_action_ms, fresh
from vla_edge_ros.bench.run.sampler import DEVICE
from vla_edge_ros.bench.run.trial_data import TrialData
from vla_edge_ros.quantiles import quantile
from vla_edge_ros.recording.fallback_causes import cause_of
from vla_edge_ros.runtime.metrics import Quantiles
from vla_edge_ros.types import NS_PER_MS, ActionSource, CycleRecord, Outcome
from vla_edge_ros.wilson import wilson_interval

# A camera that is silent for so many periods pauses, as the simulated table does between two episodes.
PAUSE_PERIODS = 4
STAGES = ("frame_age", "vision", "prefill", "decode", "chunk", "latency", "to_action")


def stage_samples(cycles: Sequence[CycleRecord]) -> dict[str, list[float]]:
    """Milliseconds of fresh actions by stage, in the order in which a frame meets them."""
    acted = fresh(cycles)
    times = [record.times for record in acted if record.times is not None]
    return {
        "frame_age": [record.frame_age_ms for record in acted],
        "vision": [each.vision_ms for each in times],
        "prefill": [each.prefill_ms for each in times],
        "decode": [sum(each.decode_ms) for each in times],
        "chunk": [each.total_ms for each in times],
        "latency": [record.latency_ms for record in acted],
        "to_action": [frame_to_action_ms(record) for record in acted],
    }


def quantiles_of(samples: Sequence[float]) -> dict[str, float]:
    found = Quantiles.of(samples)
    return {"p50": found.p50, "p95": found.p95, "p99": found.p99, "max": found.max, "n": len(samples)}


def stages(trials: Sequence[TrialData]) -> dict[str, dict[str, float]]:
    pooled: dict[str, list[float]] = {stage: [] for stage in STAGES}
    for trial in trials:
        for stage, samples in stage_samples(trial.cycles).items():
            pooled[stage] += samples
    return {stage: quantiles_of(samples) for stage, samples in pooled.items()}


def fallbacks(trials: Sequence[TrialData]) -> dict[str, Any]:
    """Cycles without a fresh action by cause; causes add up to ``cycles`` less ``fresh``."""
    cycles = [record for trial in trials for record in trial.cycles]
    causes = Counter(cause_of(r) for r in cycles if r.source is not ActionSource.FRESH)
    return {
        "cycles": len(cycles),
        "fresh": len(fresh(cycles)),
        "causes": dict(causes.most_common()),
        "sources": dict(Counter(record.source.value for record in cycles).most_common()),
        "longest_repeat": max(
            (r.repeat_streak for r in cycles if r.source is ActionSource.REPEAT), default=0
        ),
        "longest_without_fresh": max((_longest_gap(trial.cycles) for trial in trials), default=0),
        "unanswered": sum(int(trial.state.get("unanswered_cycles", 0)) for trial in trials),
    }


def _longest_gap(cycles: Sequence[CycleRecord]) -> int:
    longest = here = 0
    for record in cycles:
        here = 0 if record.source is ActionSource.FRESH else here + 1
        longest = max(longest, here)
    return longest


def refusals(trials: Sequence[TrialData]) -> dict[str, Any]:
    """Decisions of admission by reason."""
    decided = [r.decision for trial in trials for r in trial.cycles if r.decision is not None]
    return {
        "decisions": len(decided),
        "admitted": sum(decision.admitted for decision in decided),
        "refused": dict(Counter(d.reason.value for d in decided if not d.admitted).most_common()),
    }


def predictions(trials: Sequence[TrialData]) -> dict[str, Any]:
    """Whole chunks: what admission predicted and what they took; ``points`` are at most 300 of them."""
    pairs = [
        (record.decision.predicted_ms, record.times.total_ms)
        for trial in trials
        for record in trial.cycles
        if record.decision is not None and record.times is not None and record.times.completed
    ]
    if not pairs:
        return {"chunks": 0, "points": []}
    array = np.array(pairs)
    errors = np.sort(array[:, 1] - array[:, 0])
    chosen = np.unique(np.linspace(0, len(array) - 1, min(300, len(array))).round().astype(int))
    return {
        "chunks": len(array),
        "predicted_ms_p50": float(quantile(np.sort(array[:, 0]), 0.5)),
        "measured_ms_p50": float(quantile(np.sort(array[:, 1]), 0.5)),
        **{f"error_ms_{name}": float(quantile(errors, q)) for name, q in _ERROR_SHARES.items()},
        "took_longer": float((errors > 0).mean()),
        "points": [[round(float(value), 4) for value in array[place]] for place in chosen],
    }


_ERROR_SHARES = {"p5": 0.05, "p50": 0.5, "p95": 0.95, "max": 1.0}


def camera(trials: Sequence[TrialData], rate_hz: float) -> dict[str, Any]:
    """How far a picture's stamp is from where the one used before says that it should be.

    Between two cycles lie several pictures; their numbers tell how many. A picture that was lost on its way
    has no number, so it shows as one period too much.
    """
    period_ms = 1000.0 / rate_hz
    off, pauses, lost, longest_ms = [], 0, 0, 0.0
    for trial in trials:
        stamped = {r.frame_sequence: r.frame_stamp_ns for r in trial.cycles if r.frame_sequence > 0}
        numbers = np.array(sorted(stamped))
        stamps_ms = np.array([stamped[number] for number in numbers.tolist()]) / NS_PER_MS
        steps, gaps_ms = np.diff(numbers), np.diff(stamps_ms)
        is_pause = gaps_ms > (steps + PAUSE_PERIODS) * period_ms
        pauses += int(is_pause.sum())
        longest_ms = max([longest_ms, *gaps_ms[is_pause].tolist()])
        deviation = (gaps_ms - steps * period_ms)[~is_pause]
        lost += int(np.maximum(0, np.round(deviation / period_ms)).sum())
        off += deviation.tolist()
    absolute = quantiles_of([abs(value) for value in off])
    return {
        **{f"off_ms_{name}": absolute[name] for name in ("p50", "p95", "p99", "max")},
        "gaps": len(off),
        "pauses": pauses,
        "longest_pause_ms": longest_ms,
        "late_by_a_period": lost,
        "frames_received": sum(int(trial.state.get("frames_received", 0)) for trial in trials),
        "frames_refused": sum(int(trial.state.get("frames_refused", 0)) for trial in trials),
    }


def memory(trials: Sequence[TrialData]) -> dict[str, Any]:
    """MiB by process, from outside: the peak of all trials and the growth while measuring, of the first."""
    found: dict[str, Any] = {}
    for name in sorted({sample.name for trial in trials for sample in trial.memory}):
        peaks, growths = [], []
        for trial in trials:
            mb = [sample.mb for sample in trial.memory if sample.name == name]
            base = (trial.device_mb_before or 0.0) if name == DEVICE else 0.0
            peaks += [max(mb) - base] if mb else []
            growths += _growth(trial, name)
        found[name] = {
            "peak_mb": max(peaks, default=math.nan),
            "peaks_mb": peaks,
            "growth_mb": growths[0] if growths else None,
        }
    return found


def _growth(trial: TrialData, name: str) -> list[float]:
    """From the first to the last tenth of the measured stretch, medians."""
    start_s = len(trial.warmup) * trial.period_ms / 1000
    end_s = start_s + len(trial.cycles) * trial.period_ms / 1000
    mb = [sample.mb for sample in trial.memory if sample.name == name and start_s <= sample.at_s <= end_s]
    tenth = len(mb) // 10
    return [float(np.median(mb[-tenth:]) - np.median(mb[:tenth]))] if tenth else []


def decoding(trials: Sequence[TrialData]) -> dict[str, Any]:
    """Passes behind the prefill, drafts, and how often an action repeats the one before it."""
    acted = [record for trial in trials for record in fresh(trial.cycles)]
    passes = Counter(1 + len(record.times.decode_ms) for record in acted if record.times is not None)
    repeated = compared = 0
    for trial in trials:
        tokens = [record.tokens for record in fresh(trial.cycles)]
        compared += max(0, len(tokens) - 1)
        repeated += sum(a == b for a, b in zip(tokens, tokens[1:], strict=False))
    config = trials[0].config
    return {
        "mode": config["action"]["decoding"],
        "draft": config["engine"]["draft"],
        "action_tokens": len(config["action"]["names"]),
        "actions": len(acted),
        "drafted": sum(record.times is not None and record.times.drafted for record in acted),
        "passes": {str(count): passes[count] for count in sorted(passes)},
        "passes_mean": sum(count * times for count, times in passes.items()) / max(1, passes.total()),
        "repeated": repeated,
        "compared": compared,
    }


def success(trials: Sequence[TrialData]) -> list[dict[str, Any]]:
    """One entry a task and delay, with Wilson's 95 % interval; none without episodes."""
    played = [episode for trial in trials for episode in trial.episodes]
    rows = []
    for task, delay in sorted({(episode.task, episode.delay) for episode in played}):
        here = [episode for episode in played if (episode.task, episode.delay) == (task, delay)]
        hits = sum(episode.succeeded for episode in here)
        low, high = wilson_interval(hits, len(here))
        rows.append(
            {"task": task, "delay": delay, "episodes": len(here), "succeeded": hits}
            | {"share": hits / len(here), "low": low, "high": high}
        )
    return rows


def outcomes(cycles: Sequence[CycleRecord]) -> dict[str, int]:
    return {
        outcome.value: count
        for outcome in Outcome
        if (count := sum(record.outcome is outcome for record in cycles))
    }
