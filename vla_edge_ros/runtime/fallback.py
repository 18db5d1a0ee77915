# SPDX-License-Identifier: Apache-2.0
"""The fallback ladder: what is published in a cycle that has no fresh action.

Nothing before the first action; then the last action again, a bounded number of times and while its frame
is young; then zero motion: what stops each dimension, zero for a rate or a delta and the last value for a
position (the gripper, or a joint's angle, which at 0 would be a command to go there). Repeating a rate keeps
an arm moving, which is why the repeat is bounded (fault A21).

A repeat carries the stamp of the action that it repeats, zero motion that of the time at which it is made: a
controller that drops what is old must not drop the stop.
"""

from __future__ import annotations

import numpy as np

from vla_edge_ros.config import ActionConfig, FallbackConfig
from vla_edge_ros.types import NS_PER_MS, Action, ActionSource


class FallbackLadder:
    """Remembers the last fresh action and how often it was repeated. Guarded by the caller's lock."""

    def __init__(self, fallback: FallbackConfig, action: ActionConfig):
        self._fallback = fallback
        self._is_held = np.array(action.is_held)
        self._last: Action | None = None
        self.repeat_streak = 0

    def acted(self, action: Action) -> None:
        """A fresh action was published: the ladder starts over from it."""
        self._last = action
        self.repeat_streak = 0

    def forget(self) -> None:
        """Before an activation: what an earlier one did must not be repeated."""
        self._last = None
        self.repeat_streak = 0

    def answer(self, now_stamp_ns: int) -> tuple[ActionSource, Action | None]:
        """The next rung, ``now_stamp_ns`` in the frames' clock."""
        if self._last is None or self._fallback.mode == "none":
            return ActionSource.NONE, None
        # A clock that jumped back gives a negative age; the count still bounds the repeats.
        age_ms = max(0, now_stamp_ns - self._last.stamp_ns) / NS_PER_MS
        if (
            self._fallback.mode == "repeat"
            and self.repeat_streak < self._fallback.max_repeats
            and age_ms <= self._fallback.max_action_age_ms
        ):
            self.repeat_streak += 1
            return ActionSource.REPEAT, self._last
        # Once at rest, stay there: a repeat after zero motion would jerk the arm.
        self.repeat_streak = max(self.repeat_streak, self._fallback.max_repeats)
        return ActionSource.ZERO, self.zero_motion(now_stamp_ns)

    def zero_motion(self, now_stamp_ns: int) -> Action | None:
        """What stops each dimension, stamped now; None before the first action: nothing to stop."""
        if self._last is None:
            return None
        return Action(np.where(self._is_held, self._last.values, 0.0), now_stamp_ns)
