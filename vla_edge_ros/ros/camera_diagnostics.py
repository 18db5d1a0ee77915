# SPDX-License-Identifier: Apache-2.0
"""The diagnostics' subject Camera: the likeliest cause first, in words, in agreement with ``/vla/status``."""

from __future__ import annotations

from collections.abc import Iterator

from diagnostic_msgs.msg import DiagnosticStatus

from vla_edge_ros.config import TimingConfig
from vla_edge_ros.ros.health import ActionHealth, CameraHealth
from vla_edge_ros.ros.messages import Number
from vla_edge_ros.runtime.metrics import MetricsSnapshot
from vla_edge_ros.types import Outcome

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR

Judgement = tuple[bytes, str]

REFUSALS = ("encoding", "size", "step", "data", "order")
REPLACED = ("zero", "negative", "future", "absurd")

# Best effort over a network loses an image now and then, and by stamps a verdict is less sure.
LOST_PERCENT_WARN = {"numbers": 5.0, "stamps": 10.0}
LOST_WARN = 3
# A deadline leaves some room: half of a publisher's promise is a breach, nine tenths are a busy machine.
PROMISE_WARN = 0.75
BUSY_WARN = 0.5
NO_NEW_SHARE_WARN = 0.1  # a 30 Hz camera beside cycles of 33 ms is late for some
# Ages that lie so close together come from a clock, not from a queue or a network.
STEADY_SHARE, STEADY_MS = 0.1, 50.0


def judge_camera(
    camera: CameraHealth, metrics: MetricsSnapshot, action: ActionHealth, timing: TimingConfig
) -> Judgement:
    """What is wrong first: no image at all, then images that cannot be used, then the rest."""
    if action.state == "unconfigured":
        return OK, "not configured"
    if camera.frames and camera.silent_s > camera.timeout_s:
        cause = next(_hindrances(camera), "")
        silence = f"no usable image for {camera.silent_s:.1f} s on {camera.topic}"
        return ERROR, f"{silence}: {cause}" if cause else silence
    if camera.frames and camera.least_age_ms > camera.max_age_ms:
        return ERROR, _stale(camera)
    warning = next(_warnings(camera), "")
    if not warning and action.is_active:  # the counts of a run that has ended say nothing of now
        warning = _unused_cycles(camera, metrics, timing)
    return (WARN, warning) if warning else (OK, f"{camera.rate_hz:.1f} Hz")


def _warnings(camera: CameraHealth) -> Iterator[str]:
    yield from _hindrances(camera)
    if not camera.frames:
        who = f"from {camera.publisher_names}" if camera.publishers else "0 publishers"
        yield f"waiting for image on {camera.topic} ({who})"
    if camera.publishers > 1:
        yield (
            f"{camera.publishers} publishers on {camera.topic}, {camera.publisher_names}: "
            "their pictures alternate"
        )
    if lost := _lost(camera):
        yield lost
    if camera.frames and 0 < camera.rate_hz < PROMISE_WARN * camera.promised_hz:
        yield (
            f"{camera.rate_hz:.1f} Hz arrive on {camera.topic}, its publisher promises "
            f"{camera.promised_hz:.1f} Hz by its deadline"
        )
    if camera.recent_replaced:
        yield (
            f"stamps replaced by the time of receipt: {_counts(camera.replaced_stamps)}; "
            "is the camera on another clock (use_sim_time)?"
        )


def _hindrances(camera: CameraHealth) -> Iterator[str]:
    """What keeps images from being received at all."""
    if camera.strangers:
        yield f"{camera.topic} must carry {camera.expected_type}: {camera.strangers}"
    if camera.kept_away:
        yield f"{camera.topic}: {camera.kept_away}; its images do not arrive"
    if camera.clock_missing:
        yield "no clock: use_sim_time is set and nothing publishes /clock"
    if camera.recent_refused:
        yield f"images refused ({_counts(camera.refused)}): {camera.refusal}"


def _stale(camera: CameraHealth) -> str:
    least, most = camera.least_age_ms, camera.most_age_ms
    is_steady = most - least <= max(STEADY_SHARE * most, STEADY_MS)
    cause = (
        "so steady an age is that of a clock: synchronise the camera's with this machine's (chrony, PTP)"
        if is_steady
        else "the camera's clock is behind this machine's, or images queue up on their way"
    )
    return (
        f"stale: images on {camera.topic} are {least:.0f} to {most:.0f} ms old when they come, "
        f"timing.max_frame_age_ms is {camera.max_age_ms:g}; {cause}"
    )


def _lost(camera: CameraHealth) -> str:
    loss = camera.loss
    if loss.lost < LOST_WARN or loss.percent < LOST_PERCENT_WARN[loss.basis]:
        return ""
    told = f"{loss.percent:.0f} % of {loss.sent} images did not arrive on {camera.topic}"
    if loss.basis == "stamps":
        told += " by the gaps in their stamps, unless the camera left them out"
    return f"{told} ({camera.transport}): {_remedy(camera)}"


def _remedy(camera: CameraHealth) -> str:
    if camera.busy_share > BUSY_WARN:
        return f"this process is busy converting them for {100 * camera.busy_share:.0f} % of the time"
    if "FASTDDS_BUILTIN_TRANSPORTS" in camera.transport and "LARGE_DATA" not in camera.transport:
        return "set FASTDDS_BUILTIN_TRANSPORTS=LARGE_DATA for the camera and this node"
    return (
        "send compressed or smaller images, enlarge the sockets' buffers (net.core.rmem_max), "
        "or give this machine less else to do"
    )


def _unused_cycles(camera: CameraHealth, metrics: MetricsSnapshot, timing: TimingConfig) -> str:
    """Cycles that had no image to act on, as the status of each has said."""
    count, cycles = metrics.recent_outcomes, sum(metrics.recent_outcomes.values())
    stale, no_new = count.get(Outcome.STALE_FRAME, 0), count.get(Outcome.NO_NEW_FRAME, 0)
    if metrics.last is not None and metrics.last.outcome is Outcome.NO_FRAME_YET:
        return f"waiting for image on {camera.topic}: none came in this run"
    if stale:
        return (
            f"in {stale} of the last {cycles} cycles the newest image was stale: {camera.rate_hz:.1f} Hz, "
            f"{camera.most_age_ms:.0f} ms old on receipt, timing.max_frame_age_ms is {camera.max_age_ms:g}"
        )
    if no_new > NO_NEW_SHARE_WARN * cycles:
        return (
            f"in {no_new} of the last {cycles} cycles there was no new image: {camera.rate_hz:.1f} Hz, "
            f"a cycle each {timing.period_ms:g} ms needs {1000 / timing.period_ms:.1f} Hz"
        )
    return ""


def camera_values(camera: CameraHealth) -> dict[str, Number]:
    return {
        "rate_hz": camera.rate_hz,
        "frames": camera.frames,
        "overwritten_unread": camera.overwritten,
        "lost_percent": camera.loss.percent,
        "lost_of_last": camera.loss.lost,
        "sent_of_last": camera.loss.sent,
        "loss_known_by": camera.loss.basis or "nothing",
        "promised_hz": camera.promised_hz,
        "busy_percent": 100 * camera.busy_share,
        "silent_s": camera.silent_s,
        "receipt_age_ms": camera.age_ms,
        "width_px": camera.width,
        "height_px": camera.height,
        "encoding": camera.encoding,
        "topic": camera.topic,
        "type": camera.expected_type,
        "publishers": camera.publishers,
        **{f"refused_{reason}": camera.refused.get(reason, 0) for reason in REFUSALS},
        **{f"stamp_{reason}": camera.replaced_stamps.get(reason, 0) for reason in REPLACED},
    }


def _counts(counter: dict[str, int]) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in sorted(counter.items()))
