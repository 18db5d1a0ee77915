# SPDX-License-Identifier: Apache-2.0
"""Six statuses for ``/diagnostics`` (REP 107): Camera, Deadline, Admission, KV cache, Action, GPU.

One function judges one subject, and none is OK where ``/vla/status`` names it as the cause of a cycle's
fallback. Each has the same keys every time, since a key that vanishes breaks plots and layouts. STALE is the
aggregator's to set. Nobody may stop a robot by these: see the action's own age.
"""

from __future__ import annotations

from collections.abc import Sequence

from diagnostic_msgs.msg import DiagnosticStatus

from vla_edge_ros.config import TimingConfig
from vla_edge_ros.ros.camera_diagnostics import ERROR, OK, WARN, Judgement, camera_values, judge_camera
from vla_edge_ros.ros.health import ActionHealth, CameraHealth, EngineHealth
from vla_edge_ros.ros.messages import MEANING, Number, to_diagnostic
from vla_edge_ros.runtime.metrics import MetricsSnapshot
from vla_edge_ros.types import ActionSource, Outcome, Reason, believable_age_ms

MISS_SHARE_WARN = 0.01
BYTES_PER_MB = 1 << 20


def diagnose(
    node_name: str,
    timing: TimingConfig,
    camera: CameraHealth,
    metrics: MetricsSnapshot,
    action: ActionHealth,
    engine: EngineHealth,
) -> list[DiagnosticStatus]:
    """All six, in a fixed order.

    ``node_name`` is the fully qualified one, and the ``hardware_id`` as well: robots share ``/diagnostics``,
    and one name for two of them would flicker.
    """
    subjects: tuple[tuple[str, Judgement, dict[str, Number]], ...] = (
        ("Camera", judge_camera(camera, metrics, action, timing), camera_values(camera)),
        ("Deadline", _judge_deadline(metrics, action), _deadline_values(metrics, timing.deadline_ms)),
        ("Admission", _judge_admission(metrics, action), _admission_values(metrics)),
        ("KV cache", (OK, engine.eviction), _cache_values(metrics, engine)),
        ("Action", _judge_action(metrics, action), _action_values(metrics, action)),
        ("GPU", _judge_engine(metrics, action, engine), _engine_values(metrics, engine)),
    )
    return [
        to_diagnostic(f"{node_name}: {name}", level, message, values, node_name)
        for name, (level, message), values in subjects
    ]


def levels(statuses: Sequence[DiagnosticStatus]) -> tuple[bytes, ...]:
    """What must be told at once when it changes."""
    return tuple(status.level for status in statuses)


def _judge_deadline(metrics: MetricsSnapshot, action: ActionHealth) -> Judgement:
    if not action.is_active:
        return OK, action.state
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


def _judge_admission(metrics: MetricsSnapshot, action: ActionHealth) -> Judgement:
    if not action.is_active:
        return OK, action.state
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
        "remembered_frames": metrics.remembered_frames,
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
    if action.kept_away:
        return WARN, f"{action.kept_away}; it gets no messages"
    if last is None:
        return WARN, "no action yet: waiting for the first image"
    if last.outcome is Outcome.ENGINE_ERROR:
        return ERROR, f"engine error: {last.error}"
    meaning = MEANING[last.outcome][1]
    if last.source is ActionSource.NONE:
        when = "no action" if metrics.sources.get(ActionSource.FRESH) else "no action yet"
        return WARN, f"{when}: {meaning}"
    if last.source is ActionSource.ZERO:
        return ERROR, f"zero motion: {last.outcome.value}: {meaning}"
    return _judge_window(metrics)


def _judge_window(metrics: MetricsSnapshot) -> Judgement:
    others = {o: n for o, n in metrics.window_outcomes.items() if o is not Outcome.ACTED}
    if not others:
        return OK, "fresh actions"
    share = 100 * sum(others.values()) / metrics.window_cycles
    causes = ", ".join(f"{outcome.value} {n}" for outcome, n in sorted(others.items(), key=lambda o: -o[1]))
    return WARN, f"{share:.1f} % of the last {metrics.window_cycles} cycles fell back: {causes}"


def _action_values(metrics: MetricsSnapshot, action: ActionHealth) -> dict[str, Number]:
    return {
        "cycles": metrics.cycles,
        **{source.value: metrics.sources.get(source, 0) for source in ActionSource},
        **{outcome.value: metrics.outcomes.get(outcome, 0) for outcome in Outcome},
        "repeat_streak": metrics.last.repeat_streak if metrics.last else 0,
        "longest_repeat": metrics.longest_repeat,
        "frame_age_ms": believable_age_ms(metrics.last.frame_age_ms) if metrics.last else float("nan"),
        "publishers": action.publishers,
        "faults": action.faults,
    }


def _judge_engine(metrics: MetricsSnapshot, action: ActionHealth, engine: EngineHealth) -> Judgement:
    if engine.ceiling_mb and engine.memory.total_bytes > engine.ceiling_mb * BYTES_PER_MB:
        return ERROR, f"{engine.name}: memory above the ceiling"
    if not action.is_active:
        return OK, engine.name
    if metrics.last is not None and metrics.last.outcome is Outcome.ENGINE_ERROR:
        return ERROR, f"{engine.name}: {metrics.last.error}"
    if errors := metrics.recent_outcomes.get(Outcome.ENGINE_ERROR, 0):
        cycles = sum(metrics.recent_outcomes.values())
        return WARN, f"{engine.name}: {errors} of the last {cycles} cycles failed: {metrics.last_error}"
    if engine.caveats:
        return WARN, "; ".join(engine.caveats)
    return OK, engine.name


def _engine_values(metrics: MetricsSnapshot, engine: EngineHealth) -> dict[str, Number]:
    return {
        "memory_mb": engine.memory.total_bytes / BYTES_PER_MB,
        "peak_memory_mb": engine.memory.peak_bytes / BYTES_PER_MB,
        "ceiling_mb": engine.ceiling_mb,
        "errors": metrics.outcomes.get(Outcome.ENGINE_ERROR, 0),
        "model_caveats": len(engine.caveats),
    }
