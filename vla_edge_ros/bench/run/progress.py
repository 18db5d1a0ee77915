# SPDX-License-Identifier: Apache-2.0
"""One line that says what runs and how long the rest takes."""

from __future__ import annotations

import time
from typing import Any, TextIO

from vla_edge_ros.bench.run.plan import START_S, Plan, Trial
from vla_edge_ros.bench.run.trial_state import RUNNING

LINE_EVERY_S = 10.0  # where the output is no terminal


class Progress:
    """``show`` may be called as often as wanted; what a trial takes besides is learned from others."""

    def __init__(self, plan: Plan, out: TextIO):
        self._plan = plan
        self._out = out
        self._is_terminal = out.isatty()
        self._trials = len(plan.trials())
        self._other_s = [START_S]
        self._said_s = float("-inf")
        self._width = 0

    def learn(self, trial_wall_s: float) -> None:
        """A trial has ended after so long, its start and end included."""
        self._other_s = [*self._other_s[-3:], max(0.0, trial_wall_s - self._plan.trial_s)]

    def line(self, number: int, trial: Trial, state: dict[str, Any]) -> str:
        """``number``: of the trial, from 0."""
        plan, elapsed_s = self._plan, float(state.get("elapsed_s", 0.0))
        other_s = self._other_s[-1]
        is_running = state.get("phase") == RUNNING and elapsed_s > 0
        here_s = max(0.0, plan.trial_s - elapsed_s) + (0.0 if is_running else other_s)
        left_s = here_s + (self._trials - number - 1) * (plan.trial_s + other_s)
        what = "starting"
        if is_running:
            measured_s = elapsed_s - plan.warmup_s
            what = f"warm-up {elapsed_s:.0f} of {plan.warmup_s:.0f} s"
            if measured_s > 0:
                what = f"measuring {min(measured_s, plan.duration_s):.0f} of {plan.duration_s:.0f} s"
        minutes, seconds = divmod(round(left_s), 60)
        return f"[{number + 1}/{self._trials}] {trial.name}: {what} | about {minutes}:{seconds:02d} left"

    def show(self, number: int, trial: Trial, state: dict[str, Any]) -> None:
        now_s = time.monotonic()
        if not self._is_terminal and now_s - self._said_s < LINE_EVERY_S:
            return
        self._said_s = now_s
        text = self.line(number, trial, state)
        if self._is_terminal:
            self._out.write("\r" + text.ljust(self._width))
            self._width = len(text)
        else:
            self._out.write(text + "\n")
        self._out.flush()

    def say(self, text: str) -> None:
        """A whole line of its own."""
        if self._is_terminal and self._width:
            self._out.write("\r" + " " * self._width + "\r")
            self._width = 0
        self._out.write(text + "\n")
        self._out.flush()
