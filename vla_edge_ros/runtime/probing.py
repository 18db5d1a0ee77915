# SPDX-License-Identifier: Apache-2.0
"""Probes: chunks admitted against the estimate, so that a wrong estimate cannot refuse for ever.

A refused cycle measures nothing, so an estimate that refuses would never be corrected. A probe runs on its
own evidence: it is aborted by what this very chunk has shown, never by the estimate that it is there to test.
"""

from __future__ import annotations

from vla_edge_ros.types import ChunkTimes, Reason

LONGEST_CHUNK_MS = 3_600_000.0  # an hour: a machine that slept, or a broken clock, not a chunk


class ProbeSchedule:
    """When to probe: after ``after`` refusals in a row, doubling to ``every_max`` while probes fail.

    A probe that succeeds is followed by another one at once, until the estimate itself admits.
    """

    def __init__(self, after: int, every_max: int):
        self._after = after
        self._every_max = every_max
        self._gap = after
        self._refusals = 0
        self._succeeded = False
        self._running = False

    @property
    def running(self) -> bool:
        """Whether the chunk that was admitted last is a probe without a result yet."""
        return self._running

    def due(self) -> bool:
        """Whether the chunk that is about to be refused should run as a probe."""
        if self._running:  # its chunk never reported, so it failed in the engine
            self.report(False)
        return self._succeeded or self._refusals >= self._gap

    def refused(self) -> None:
        self._refusals += 1

    def started(self) -> None:
        self._refusals = 0
        self._succeeded = False
        self._running = True

    def instead_of_refusal(self) -> Reason:
        """What becomes of a chunk that the estimate refuses: a probe, where one is due."""
        if self.due():
            self.started()
            return Reason.PROBE
        self.refused()
        return Reason.OVER_BUDGET

    def report(self, succeeded: bool) -> None:
        """Take the end of the running probe; nothing happens where none runs."""
        if not self._running:
            return
        self._running = False
        self._succeeded = succeeded
        self._gap = self._after if succeeded else min(2 * self._gap, self._every_max)

    def admitted(self) -> None:
        """The estimate admits by itself again."""
        self._gap = self._after
        self._refusals = 0
        self._succeeded = self._running = False


def probe_must_stop(
    limit_ms: float, elapsed_ms: float, so_far: ChunkTimes, steps: int, assumed_step_ms: float
) -> bool:
    """Abort a probe by its own evidence: would the decode steps that are left end after ``limit_ms``?

    ``steps``: decode steps of a whole chunk. ``assumed_step_ms`` stands for the first decode step, before one
    has been seen, and counts for that one step only. It is bounded by the measured prefill, which reads the
    same weights for more tokens, so an assumption that is far too high cannot abort every probe.
    """
    steps_left = steps - len(so_far.decode_ms)
    if so_far.decode_ms:
        rest_ms = max(steps_left, 0) * sum(so_far.decode_ms) / len(so_far.decode_ms)
    elif so_far.prefill_ms > 0 and steps_left > 0:
        rest_ms = min(assumed_step_ms, so_far.prefill_ms)
    else:
        rest_ms = 0.0
    return not elapsed_ms + rest_ms <= limit_ms


def is_usable(times: ChunkTimes) -> bool:
    """Whether a measurement can be learned from: finite, none negative, no stage that ran in no time.

    ``vision_ms`` may be 0 where an engine embeds inside its prefill; an aborted chunk may have nothing.
    """
    stages = (times.vision_ms, times.prefill_ms, *times.decode_ms)
    if not all(0 <= ms <= LONGEST_CHUNK_MS for ms in stages) or times.total_ms > LONGEST_CHUNK_MS:
        return False
    prefill_ran = times.completed or bool(times.decode_ms)
    return all(ms > 0 for ms in times.decode_ms) and (times.prefill_ms > 0 or not prefill_ran)
