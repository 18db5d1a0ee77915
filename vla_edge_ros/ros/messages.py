# SPDX-License-Identifier: Apache-2.0
"""A cycle's record as ROS messages: the action for controllers, the status for everybody who watches.

Both are standard messages, so that a subscriber needs no package of ours. The only module that knows how an
action looks on the wire.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from builtin_interfaces.msg import Duration, Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from vla_edge_ros.config import ActionConfig
from vla_edge_ros.errors import printable
from vla_edge_ros.types import (
    NS_PER_MS,
    NS_PER_S,
    Action,
    ActionSource,
    CycleRecord,
    Outcome,
    believable_age_ms,
)

LAST_NS = 2**31 * NS_PER_S - 1  # a message's seconds have 32 bits

Number = int | float | str

MEANING = {
    Outcome.ACTED: (DiagnosticStatus.OK, "action from a fresh frame"),
    Outcome.NO_FRAME_YET: (DiagnosticStatus.WARN, "waiting for the first image"),
    Outcome.NO_NEW_FRAME: (DiagnosticStatus.WARN, "no new image since the last cycle"),
    Outcome.STALE_FRAME: (DiagnosticStatus.WARN, "the newest image is too old"),
    Outcome.REFUSED: (DiagnosticStatus.WARN, "admission refused: the chunk would be late"),
    Outcome.ABORTED: (DiagnosticStatus.WARN, "chunk aborted: it would have been late"),
    Outcome.LATE: (DiagnosticStatus.WARN, "chunk late: the watchdog answered"),
    Outcome.ENGINE_ERROR: (DiagnosticStatus.ERROR, "engine error"),
    Outcome.STOPPED: (DiagnosticStatus.OK, "stopped"),
}


def to_time(stamp_ns: int) -> Time:
    """What no message can say, before 1970 or after 2038, becomes the nearest that one can."""
    seconds, nanoseconds = divmod(min(max(stamp_ns, 0), LAST_NS), NS_PER_S)
    return Time(sec=seconds, nanosec=nanoseconds)


def to_trajectory(
    action: Action, config: ActionConfig, source: ActionSource = ActionSource.FRESH
) -> JointTrajectory:
    """The action with its stamp, so that its age is now minus stamp. The contract: docs/reference/action.md.

    ``time_from_start`` is how long it may be followed. Zero motion says that it is a stop: it alone has
    ``velocities``, one a name and all 0, which is what it asks for. Raises ``ValueError`` for a value that is
    not finite: a controller must never see one.
    """
    if not np.isfinite(action.values).all():
        raise ValueError(f"action values must be finite, got {action.values.tolist()}")
    seconds, nanoseconds = divmod(round(config.validity_ms * NS_PER_MS), NS_PER_S)
    point = JointTrajectoryPoint(
        positions=action.values.tolist(), time_from_start=Duration(sec=seconds, nanosec=nanoseconds)
    )
    if source is ActionSource.ZERO:
        point.velocities = [0.0] * len(config.names)
    message = JointTrajectory(joint_names=list(config.names), points=[point])
    message.header.stamp = to_time(action.stamp_ns)
    message.header.frame_id = config.frame_id
    return message


def is_stop(message: JointTrajectory) -> bool:
    """Whether an action message says stop: the only one whose point has velocities."""
    return any(len(point.velocities) for point in message.points)


def to_status(record: CycleRecord, node_name: str, now_ns: int) -> DiagnosticArray:
    """What the cycle decided and measured. Stamped as its action is; ``now_ns`` where it has none.

    ``node_name`` is the fully qualified one. The keys are always the same ones; a number that was not
    measured is ``nan``, and so is the age of a stamp of another clock.
    """
    level, message = MEANING[record.outcome]
    if record.source is ActionSource.ZERO and record.outcome is not Outcome.STOPPED:
        level = DiagnosticStatus.ERROR
    if record.error:
        message = f"{message}: {record.error}"
    array = DiagnosticArray(
        status=[to_diagnostic(f"{node_name}: Cycle", level, message, _values(record, now_ns), node_name)]
    )
    array.header.stamp = to_time(record.action.stamp_ns if record.action is not None else now_ns)
    return array


def _values(record: CycleRecord, now_ns: int) -> dict[str, Number]:
    decision, times, action, nan = record.decision, record.times, record.action, float("nan")
    before = record.remembered_before
    # No picture is behind zero motion.
    is_seen = action is not None and record.source is not ActionSource.ZERO
    sensor_to_action_ms = max(0, now_ns - action.stamp_ns) / NS_PER_MS if action and is_seen else nan
    return {
        "cycle": record.cycle,
        "outcome": record.outcome.value,
        "source": record.source.value,
        "repeat_streak": record.repeat_streak,
        "frame_sequence": record.frame_sequence,
        "age_ms": believable_age_ms(record.frame_age_ms),
        "latency_ms": record.latency_ms,
        "sensor_to_action_ms": believable_age_ms(sensor_to_action_ms),
        "admission": "none" if decision is None else ("admit" if decision.admitted else "refuse"),
        "admission_reason": "none" if decision is None else decision.reason.value,
        "elapsed_ms": decision.elapsed_ms if decision else nan,
        "predicted_ms": decision.predicted_ms if decision else nan,
        "budget_ms": decision.budget_ms if decision else nan,
        "vision_ms": times.vision_ms if times else nan,
        "prefill_ms": times.prefill_ms if times else nan,
        "decode_ms": sum(times.decode_ms) if times else nan,
        "decode_steps": len(times.decode_ms) if times else 0,
        "drafted": int(times.drafted) if times else 0,
        "slots_in_use": record.slots_in_use,
        "evicted_sequence": -1 if record.evicted_sequence is None else record.evicted_sequence,
        "remembered": int(record.remembered),
        "remembered_before": before.sequence if before else 0,
        "remembered_before_ms": before.vision_ms + before.prefill_ms if before else nan,
        "skipped_cycles": record.skipped_cycles,
    }


def to_diagnostic(
    name: str, level: bytes, message: str, values: Mapping[str, Number], hardware_id: str
) -> DiagnosticStatus:
    """A status with one number a key, as plotting tools read them; the unit is in the key."""
    return DiagnosticStatus(
        name=name,
        level=level,
        message=printable(message),
        hardware_id=hardware_id,
        values=[KeyValue(key=key, value=_text(value)) for key, value in values.items()],
    )


def _text(value: Number) -> str:
    return f"{value:.3f}" if isinstance(value, float) else printable(str(value))
