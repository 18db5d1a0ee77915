# SPDX-License-Identifier: Apache-2.0
"""Admission: can this chunk finish inside the deadline less the margin? Asked before any work on the engine.

A refusal can never lock the system: after some refusals in a row a probe is admitted, under the watchdog.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from vla_edge_ros.config import AdmissionConfig, TimingConfig
from vla_edge_ros.types import ChunkTimes, Decision


class Admission(Protocol):
    """Decides, watches a running chunk, and learns. All times are ms since the cycle's grid point.

    ``rejected_samples``: measurements since construction that were not finite, negative or empty; they change
    nothing. Written by the learning thread, read by any.
    """

    rejected_samples: int

    def calibrate(self, samples: Sequence[ChunkTimes]) -> None:
        """Take the warm-up's whole chunks, measured at several cache fills. Not learned as live samples."""
        ...

    def decide(self, elapsed_ms: float, slots_in_use: int, drafted: bool = False) -> Decision:
        """Admit or refuse a chunk over ``slots_in_use`` slots, ``elapsed_ms`` into the cycle."""
        ...

    def must_abort(self, elapsed_ms: float, so_far: ChunkTimes) -> bool:
        """Between two stages: would the rest of this chunk end too late?"""
        ...

    def learn(self, times: ChunkTimes) -> None:
        """Take a chunk's measured times; not ``times.completed``: it was aborted (a lower bound)."""
        ...

    def may_remember(self, elapsed_ms: float, slots_in_use: int, embedded_ms: float = 0.0) -> bool:
        """Does what a refused chunk needs to keep its frame fit, embedding and prefill without a draft?

        ``embedded_ms``: what the embedding took where it is done already, and only the prefill is asked for.
        Asked after a refusal, by the same budget. Where it is true, ``must_abort`` is asked between the two
        and means these two only, until the next ``decide``. It changes nothing about probes.
        """
        ...

    def learn_remembered(self, times: ChunkTimes) -> None:
        """Take what embedding and prefill took where nothing was to be decoded: whole measurements of both,
        which say nothing of decode steps and end no probe."""
        ...


def make_admission(timing: TimingConfig, admission: AdmissionConfig) -> Admission:
    """The policy that ``admission.policy`` names."""
    # Imported here, since a policy's module may come to name this protocol.
    from vla_edge_ros.runtime.ema_admission import EmaAdmission
    from vla_edge_ros.runtime.robust_admission import RobustAdmission

    policies: dict[str, Callable[[TimingConfig, AdmissionConfig], Admission]] = {
        "ema": EmaAdmission,
        "robust": RobustAdmission,
    }
    return policies[admission.policy](timing, admission)
