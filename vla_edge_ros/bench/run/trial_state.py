# SPDX-License-Identifier: Apache-2.0
"""How far a trial is: told by the process that runs it, in a file that the starting process reads."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vla_edge_ros.errors import VlaEdgeError
from vla_edge_ros.types import NS_PER_S, CycleRecord, Outcome

STATE_FILE = "state.json"
FIRST_FRAME_S = 60.0  # a camera that has sent nothing by then is not there

STARTING, RUNNING, DONE, STOPPED = "starting", "running", "done", "stopped"


class TrialClock:
    """An observer of cycles: time 0 is the first cycle that had a picture. ``on_begin`` is called then.

    ``__call__`` may come from any thread, one at a time; the others are the owner's.
    """

    def __init__(
        self,
        trial_s: float,
        on_begin: Callable[[], None],
        now_ns: Callable[[], int] = time.monotonic_ns,
    ):
        self._trial_s = trial_s
        self._on_begin = on_begin
        self._now_ns = now_ns
        self._created_ns = now_ns()
        self._begun_ns: int | None = None
        self.cycles = 0

    def __call__(self, record: CycleRecord) -> None:
        if self._begun_ns is None:
            if record.outcome in (Outcome.NO_FRAME_YET, Outcome.STOPPED):
                return
            self._begun_ns = self._now_ns()
            self._on_begin()
        self.cycles += 1

    @property
    def elapsed_s(self) -> float:
        """Since the first picture; 0 before it."""
        return 0.0 if self._begun_ns is None else (self._now_ns() - self._begun_ns) / NS_PER_S

    def is_over(self) -> bool:
        """Raises ``VlaEdgeError`` where no picture has come for too long."""
        if self._begun_ns is None and (self._now_ns() - self._created_ns) / NS_PER_S > FIRST_FRAME_S:
            raise VlaEdgeError(f"the camera must send a picture within {FIRST_FRAME_S:g} s, got none")
        return self.elapsed_s >= self._trial_s


def write_state(folder: Path, phase: str, elapsed_s: float = 0.0, **more: Any) -> None:
    """Replaced as a whole, so that a reader never finds half of it."""
    draft = folder / (STATE_FILE + ".part")
    draft.write_text(json.dumps({"phase": phase, "elapsed_s": round(elapsed_s, 3), **more}) + "\n")
    draft.replace(folder / STATE_FILE)


def read_state(folder: Path) -> dict[str, Any]:
    """``{"phase", "elapsed_s", ...}``; of a trial that has not told anything yet where there is no file."""
    try:
        state: dict[str, Any] = json.loads((folder / STATE_FILE).read_text())
    except (OSError, ValueError):
        return {"phase": STARTING, "elapsed_s": 0.0}
    return state
