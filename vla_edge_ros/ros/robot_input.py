# SPDX-License-Identifier: Apache-2.0
"""Actions as the simulated robot takes them: checked, followed for as long as they may be, then a stop.

The rules are those of docs/how-to/connect-a-controller.md: an action may be followed until its stamp plus its
``time_from_start``, so an expired one stops the arm; and the robot has a timeout of its own.
"""

from __future__ import annotations

import threading
from collections import Counter

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from numpy.typing import NDArray
from trajectory_msgs.msg import JointTrajectory

from vla_edge_ros.errors import printable
from vla_edge_ros.ros.messages import Number, to_diagnostic
from vla_edge_ros.tabletop.robot import RobotLink
from vla_edge_ros.units import NS_PER_S

NAMES = ("vx", "vy")  # m/s of the hand over the table: to the right, away from the camera
REASONS = ("names", "points", "size", "values", "duration")
SILENCE_S = 1.0  # after which the diagnostics say so


class RefusedActionError(ValueError):
    """``reason``: one of ``REASONS``."""

    def __init__(self, reason: str, text: str):
        super().__init__(text)
        self.reason = reason


def read_action(message: JointTrajectory, now_ns: int) -> tuple[list[float], float]:
    """Velocity (vx, vy, m/s) and for how many seconds from now it may be followed; 0 for an expired action.

    ``now_ns`` is ROS time. A stamp of zero means now, as everywhere in ``JointTrajectory``; one in the future
    gives no more time than ``time_from_start``. Raises ``RefusedActionError``.
    """
    if tuple(message.joint_names) != NAMES:
        raise RefusedActionError(
            "names", f"joint_names must be {', '.join(NAMES)}, got {', '.join(message.joint_names) or 'none'}"
        )
    if len(message.points) != 1:
        raise RefusedActionError("points", f"an action must have one point, got {len(message.points)}")
    point = message.points[0]
    values = list(point.positions)
    if len(values) != len(NAMES):
        raise RefusedActionError("size", f"an action must have {len(NAMES)} positions, got {len(values)}")
    if not np.isfinite(values).all():
        raise RefusedActionError("values", f"an action must be finite, got {values}")
    duration_ns = point.time_from_start.sec * NS_PER_S + point.time_from_start.nanosec
    if duration_ns < 0:
        raise RefusedActionError(
            "duration", f"time_from_start must not be negative, got {duration_ns / NS_PER_S:g} s"
        )
    stamp_ns = message.header.stamp.sec * NS_PER_S + message.header.stamp.nanosec
    age_ns = max(0, now_ns - stamp_ns) if stamp_ns else 0
    return values, max(0, duration_ns - age_ns) / NS_PER_S


class RobotInput:
    """The executor's thread calls ``receive``, the one that moves the arm ``mean_velocity``.

    Steady times are seconds of ``time.monotonic``.
    """

    def __init__(self, timeout_s: float):
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._last_refusal = ""  # of the newest message; empty: it was accepted
        self._last_s = 0.0  # of the newest accepted message; 0: none yet
        self.accepted = 0
        self.refused: Counter[str] = Counter()
        self.begin(0.0)

    def begin(self, now_s: float) -> None:
        """A new episode: the action before is not followed in it."""
        with self._lock:
            self._link = RobotLink(braked=False)
            self._since_s = self._began_s = now_s
            self._way = np.zeros(2)

    def receive(self, message: JointTrajectory, now_ns: int, now_s: float) -> str:
        """Follow the action from now on. A refused one changes nothing; the answer says why, else nothing."""
        try:
            values, seconds = read_action(message, now_ns)
        except RefusedActionError as error:
            self.refused[error.reason] += 1
            self._last_refusal = printable(str(error))
            return self._last_refusal
        with self._lock:
            self._walk(now_s)
            self._link.accept(values, min(seconds, self._timeout_s), now_s)
        self.accepted += 1
        self._last_s = now_s
        self._last_refusal = ""
        return ""

    def mean_velocity(self, until_s: float) -> NDArray[np.float64]:
        """Of the hand since the last call, ``[2]`` m/s: each action counts for as long as it was in force.

        ``until_s``: the grid point, not the time at which a busy machine comes to it; what an action of the
        meantime has done already counts in this interval, and in no other.
        """
        with self._lock:
            self._walk(until_s)
            way, self._way = self._way, np.zeros(2)
            seconds, self._began_s = until_s - self._began_s, until_s
        return way / seconds if seconds > 0 else np.zeros(2)

    def _walk(self, to_s: float) -> None:
        if to_s > self._since_s:
            self._way += self._link.way(self._since_s, to_s)
            self._since_s = to_s

    def diagnose(self, node_name: str, is_moving: bool, publishers: int, now_s: float) -> DiagnosticStatus:
        """The status ``Robot``; ``is_moving``: an episode goes on, so that silence is worth a warning."""
        level, text = DiagnosticStatus.OK, "follows actions"
        silent_s = now_s - self._last_s if self._last_s else float("nan")
        if self._last_refusal:
            level, text = DiagnosticStatus.ERROR, f"action refused: {self._last_refusal}"
        elif publishers > 1:
            level, text = DiagnosticStatus.ERROR, f"{publishers} publishers of actions: they alternate"
        elif not self._last_s:
            text = "no action yet: the arm stands"
        elif is_moving and silent_s > SILENCE_S:
            level, text = DiagnosticStatus.WARN, f"no action for {silent_s:.0f} s: the arm stands"
        values: dict[str, Number] = {
            "accepted": self.accepted,
            **{f"refused_{reason}": self.refused[reason] for reason in REASONS},
            "silent_s": silent_s,
            "publishers": publishers,
        }
        return to_diagnostic(f"{node_name}: Robot", level, text, values, node_name)
