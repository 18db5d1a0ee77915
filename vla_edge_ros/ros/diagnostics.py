# SPDX-License-Identifier: Apache-2.0
"""Six statuses for ``/diagnostics`` (REP 107): Camera, Deadline, Admission, KV cache, Action, GPU.

One function judges one subject. Each has the same keys every time, since a key that vanishes breaks plots
and layouts. STALE is the aggregator's to set. Nobody may stop a robot by these: see the action's own age.
"""

from __future__ import annotations

from collections.abc import Sequence

from diagnostic_msgs.msg import DiagnosticStatus

from vla_edge_ros.ros.health import ActionHealth, CameraHealth, EngineHealth
from vla_edge_ros.ros.messages import Number, to_diagnostic
from vla_edge_ros.runtime.metrics import MetricsSnapshot
from vla_edge_ros.types import ActionSource, Outcome, Reason

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR

MISS_SHARE_WARN = 0.01
REFUSALS = ("encoding", "size", "step", "data", "order")
REPLACED = ("zero", "negative", "future", "absurd")
BYTES_PER_MB = 1 << 20

Judgement = tuple[bytes, str]


def diagnose(
    node_name: str,
    deadline_ms: float,
    camera: CameraHealth,
    metrics: MetricsSnapshot,
    action: ActionHealth,
    engine: EngineHealth,
) -> list[DiagnosticStatus]:
    """All six, in a fixed order."""
    subjects: list[tuple[str, Judgement, dict[str, Number]]] = [
        ("Camera", _judge_camera(camera, action), _camera_values(camera)),
        ("Deadline", _judge_deadline(metrics), _deadline_values(metrics, deadline_ms)),
        ("Admission", _judge_admission(metrics), _admission_values(metrics)),
        ("KV cache", (OK, engine.eviction), _cache_values(metrics, engine)),
        ("Action", _judge_action(metrics, action), _action_values(metrics, action)),
        ("GPU", _judge_engine(metrics, engine), _engine_values(metrics, engine)),
    ]
    return [
        to_diagnostic(f"{node_name}: {name}", level, text, values, engine.name)
        for name, (level, text), values in subjects
    ]


def levels(statuses: Sequence[DiagnosticStatus]) -> tuple[bytes, ...]:
    """What must be told at once when it changes."""
    return tuple(status.level for status in statuses)


def _judge_camera(camera: CameraHealth, action: ActionHealth) -> Judgement:
    if action.state == "unconfigured":
        return OK, "not configured"
    if camera.frames and camera.silent_s > camera.timeout_s:
        return ERROR, f"no usable image for {camera.silent_s:.1f} s on {camera.topic}"
    if camera.mismatch:
        return (
            WARN,
            f"{camera.topic}: a publisher's {camera.mismatch} does not match; its images do not arrive",
        )
    if camera.clock_missing:
        return WARN, "no clock: use_sim_time is set and nothing publishes /clock"
    if camera.recent_refused:
        return WARN, f"images refused: {_counts(camera.refused)}"
    if not camera.frames:
        return WARN, f"waiting for image on {camera.topic} ({camera.publishers} publishers)"
    if camera.recent_replaced:
        return WARN, f"stamps replaced by the time of receipt: {_counts(camera.replaced_stamps)}"
    return OK, f"{camera.rate_hz:.1f} Hz"


def _camera_values(camera: CameraHealth) -> dict[str, Number]:
    return {
        "rate_hz": camera.rate_hz,
        "frames": camera.frames,
        "overwritten_unread": camera.overwritten,
        "silent_s": camera.silent_s,
        "receipt_age_ms": camera.age_ms,
        "width_px": camera.width,
        "height_px": camera.height,
        "encoding": camera.encoding,
        "publishers": camera.publishers,
        **{f"refused_{reason}": camera.refused.get(reason, 0) for reason in REFUSALS},
        **{f"stamp_{reason}": camera.replaced_stamps.get(reason, 0) for reason in REPLACED},
    }


def _judge_deadline(metrics: MetricsSnapshot) -> Judgement:
    if metrics.window_deadline_misses > MISS_SHARE_WARN * metrics.window_cycles:
        return WARN, f"{metrics.window_deadline_misses} of {metrics.window_cycles} cycles missed the deadline"
    return OK, "met"


def _deadline_values(metrics: MetricsSnapshot, deadline_ms: float) -> dict[str, Number]:
    latency, sensor_to_action = metrics.latency_ms, metrics.sensor_to_action_ms
    return {
        "deadline_ms": deadline_ms,
        "latency_p50_ms": latency.p50,
        "latency_p95_ms": latency.p95,
        "latency_p99_ms": latency.p99,
        "latency_max_ms": latency.max,
        "margin_p99_ms": deadline_ms - latency.p99,
        "sensor_to_action_p50_ms": sensor_to_action.p50,
        "sensor_to_action_p99_ms": sensor_to_action.p99,
        "sensor_to_action_max_ms": sensor_to_action.max,
        "misses": metrics.deadline_misses,
        "window_misses": metrics.window_deadline_misses,
        "window_cycles": metrics.window_cycles,
        "late_messages": metrics.late_messages,
        "dropped_results": metrics.dropped_results,
        "skipped_cycles": metrics.skipped_cycles,
        "unanswered_cycles": metrics.unanswered_cycles,
        "overtaken_cycles": metrics.overtaken_cycles,
    }


def _judge_admission(metrics: MetricsSnapshot) -> Judgement:
    last = metrics.last
    if last is not None and last.outcome is Outcome.REFUSED and last.decision is not None:
        need, have = last.decision.predicted_ms, last.decision.budget_ms - last.decision.elapsed_ms
        return WARN, f"refusing: a chunk needs {need:.1f} ms, {have:.1f} ms are left"
    return OK, "admitting"


def _admission_values(metrics: MetricsSnapshot) -> dict[str, Number]:
    decision = metrics.last.decision if metrics.last else None
    times = metrics.last.times if metrics.last else None
    nan = float("nan")
    refused = metrics.outcomes.get(Outcome.REFUSED, 0)
    started = (Outcome.ACTED, Outcome.ABORTED)
    return {
        "admitted": sum(metrics.outcomes.get(outcome, 0) for outcome in started) + metrics.dropped_results,
        "refused": refused,
        "refused_over_budget": metrics.refusals.get(Reason.OVER_BUDGET, 0),
        "refused_no_time_left": metrics.refusals.get(Reason.NO_TIME_LEFT, 0),
        "predicted_ms": decision.predicted_ms if decision else nan,
        "budget_ms": decision.budget_ms if decision else nan,
        "measured_ms": times.total_ms if times else nan,
        "rejected_samples": metrics.rejected_samples,
    }


def _cache_values(metrics: MetricsSnapshot, engine: EngineHealth) -> dict[str, Number]:
    return {
        "slots_in_use": engine.slots_in_use,
        "capacity_slots": engine.capacity_slots,
        "evictions": engine.evictions,
        "longest_memory_gap_ms": metrics.longest_memory_gap_ms,
    }


def _judge_action(metrics: MetricsSnapshot, action: ActionHealth) -> Judgement:
    last = metrics.last
    if action.publishers > 1 and action.is_active:
        return ERROR, f"{action.publishers} publishers on {action.topic}: their actions alternate"
    if action.fault:
        return ERROR, action.fault
    if not action.is_active:
        return OK, action.state
    if action.mismatch:
        return WARN, f"{action.topic}: a subscriber's {action.mismatch} does not match; it gets no actions"
    if last is None or (last.action is None and not metrics.sources.get(ActionSource.FRESH)):
        return WARN, "no action yet: waiting for the first image"
    if last.outcome is Outcome.ENGINE_ERROR:
        return ERROR, f"engine error: {last.error}"
    if last.source is ActionSource.ZERO:
        return ERROR, f"zero motion: {last.outcome.value}"
    if metrics.window_repeats or metrics.window_zeros:
        share = 100 * (metrics.window_repeats + metrics.window_zeros) / metrics.window_cycles
        return WARN, f"{share:.1f} % of the last {metrics.window_cycles} cycles fell back"
    return OK, "fresh actions"


def _action_values(metrics: MetricsSnapshot, action: ActionHealth) -> dict[str, Number]:
    return {
        "cycles": metrics.cycles,
        **{source.value: metrics.sources.get(source, 0) for source in ActionSource},
        **{outcome.value: metrics.outcomes.get(outcome, 0) for outcome in Outcome},
        "repeat_streak": metrics.last.repeat_streak if metrics.last else 0,
        "longest_repeat": metrics.longest_repeat,
        "frame_age_ms": metrics.last.frame_age_ms if metrics.last else float("nan"),
        "publishers": action.publishers,
        "faults": action.faults,
    }


def _judge_engine(metrics: MetricsSnapshot, engine: EngineHealth) -> Judgement:
    if engine.ceiling_mb and engine.memory.total_bytes > engine.ceiling_mb * BYTES_PER_MB:
        return ERROR, f"{engine.name}: memory above the ceiling"
    if metrics.last is not None and metrics.last.outcome is Outcome.ENGINE_ERROR:
        return ERROR, f"{engine.name}: {metrics.last.error}"
    return OK, engine.name


def _engine_values(metrics: MetricsSnapshot, engine: EngineHealth) -> dict[str, Number]:
    return {
        "memory_mb": engine.memory.total_bytes / BYTES_PER_MB,
        "peak_memory_mb": engine.memory.peak_bytes / BYTES_PER_MB,
        "ceiling_mb": engine.ceiling_mb,
        "errors": metrics.outcomes.get(Outcome.ENGINE_ERROR, 0),
    }


def _counts(counter: dict[str, int]) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in sorted(counter.items()))
