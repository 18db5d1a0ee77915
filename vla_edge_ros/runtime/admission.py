# SPDX-License-Identifier: Apache-2.0
"""Admission: can this chunk finish inside the deadline less the margin? Asked before any work on the engine.

A refusal can never lock the system: after some refusals in a row a probe is admitted, under the watchdog.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from vla_edge_ros.types import ChunkTimes, Decision


class Admission(Protocol):
    """Decides, watches a running chunk, and learns. All times are ms since the cycle's grid point."""

    def calibrate(self, samples: Sequence[ChunkTimes]) -> None:
        """Take the warm-up's whole chunks, measured at several cache fills. Not learned as live samples."""
        ...

    def decide(self, elapsed_ms: float, slots_in_use: int) -> Decision:
        """Admit or refuse a chunk that would run over ``slots_in_use`` slots, ``elapsed_ms`` into the cycle."""
        ...

    def must_abort(self, elapsed_ms: float, so_far: ChunkTimes) -> bool:
        """Between two stages: would the rest of this chunk end too late?"""
        ...

    def learn(self, times: ChunkTimes) -> None:
        """Take a chunk's measured times; ``times.completed`` is false for one cut short (a lower bound)."""
        ...
