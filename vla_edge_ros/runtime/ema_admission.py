# SPDX-License-Identifier: Apache-2.0
"""The plain rule: moving averages of prefill and decode step against the time that is left.

Vision is averaged together with the prefill, since both run once a chunk. An average has no memory of how
costs spread or how they grow with the cache; ``robust_admission`` has. Kept selectable for comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from vla_edge_ros.config import AdmissionConfig, TimingConfig
from vla_edge_ros.runtime.probing import ProbeSchedule, is_usable, probe_must_stop
from vla_edge_ros.types import ChunkTimes, Decision, Reason


class EmaAdmission:
    """Admits while elapsed + average prefill + steps * average decode step <= deadline - margin."""

    def __init__(self, timing: TimingConfig, admission: AdmissionConfig):
        self.rejected_samples = 0
        self._budget_ms = timing.budget_ms
        self._limit_ms = timing.chunk_limit_ms
        self._weight = admission.ema_weight
        self._probes = ProbeSchedule(admission.probe_after, admission.probe_every_max)
        self._prefill_ms: float | None = None
        self._decode_ms = 0.0
        self._steps = 0
        self._planned_steps = 0  # of what was decided on last: none where a frame is only remembered
        self._start_ms = 0.0

    def calibrate(self, samples: Sequence[ChunkTimes]) -> None:
        """Take only the number of decode steps: warm-up times are not learned (see ``Admission``)."""
        self.rejected_samples += sum(not is_usable(times) for times in samples)
        steps = [len(times.decode_ms) for times in samples if times.completed and is_usable(times)]
        if steps:
            self._steps = int(median(steps))

    def decide(self, elapsed_ms: float, slots_in_use: int, drafted: bool = False) -> Decision:
        """One average for chunks of every fill, with a draft and without."""
        predicted_ms = (self._prefill_ms or 0.0) + self._steps * self._decode_ms
        self._start_ms, self._planned_steps = elapsed_ms, self._steps
        reason = self._reason(elapsed_ms, predicted_ms)
        return Decision(reason.admits, reason, elapsed_ms, predicted_ms, self._budget_ms)

    def _reason(self, elapsed_ms: float, predicted_ms: float) -> Reason:
        if not elapsed_ms < self._budget_ms:
            return Reason.NO_TIME_LEFT
        if self._prefill_ms is None:
            return Reason.FIRST_CHUNK
        if elapsed_ms + predicted_ms <= self._budget_ms:
            self._probes.admitted()
            return Reason.WITHIN_BUDGET
        return self._probes.instead_of_refusal()

    def must_abort(self, elapsed_ms: float, so_far: ChunkTimes) -> bool:
        if self._prefill_ms is None or self._probes.running:
            assumed_ms = self._decode_ms or so_far.prefill_ms
            return probe_must_stop(self._limit_ms, elapsed_ms, so_far, self._steps, assumed_ms)
        if so_far.prefill_ms == 0:
            rest_ms = self._planned_steps * self._decode_ms + max(0.0, self._prefill_ms - so_far.vision_ms)
            slow_down = 1.0
        else:
            # At least the step that is asked for: a draft may have saved some in the chunk before.
            rest_ms = max(1, self._steps - len(so_far.decode_ms)) * self._decode_ms
            expected_ms = self._prefill_ms + len(so_far.decode_ms) * self._decode_ms
            slow_down = so_far.total_ms / expected_ms
        return not elapsed_ms + rest_ms * max(1.0, slow_down) <= self._limit_ms

    def learn(self, times: ChunkTimes) -> None:
        """Average the stages that ran; a stage that was aborted never enters.

        A whole probe replaces the averages: they come from before the refusals and proved to be out of date.
        """
        usable = is_usable(times)
        self.rejected_samples += not usable
        fits = usable and times.completed and self._start_ms + times.total_ms <= self._limit_ms
        fresh = self._prefill_ms is None or (self._probes.running and fits)
        self._probes.report(fits)
        if not usable or times.prefill_ms == 0:
            return
        if times.completed:
            self._steps = len(times.decode_ms)
        prefill_ms = times.vision_ms + times.prefill_ms
        self._prefill_ms = self._mix(self._prefill_ms or 0.0, prefill_ms, fresh)
        if times.decode_ms:
            # The first decode average may come later than the first prefill: a chunk was aborted in between.
            step_ms = sum(times.decode_ms) / len(times.decode_ms)
            is_first = fresh or self._decode_ms == 0
            self._decode_ms = self._mix(self._decode_ms, step_ms, is_first)

    def may_remember(self, elapsed_ms: float, slots_in_use: int, embedded_ms: float = 0.0) -> bool:
        self._planned_steps = 0
        if self._prefill_ms is None:
            return False
        return elapsed_ms + max(0.0, self._prefill_ms - embedded_ms) <= self._budget_ms

    def learn_remembered(self, times: ChunkTimes) -> None:
        usable = is_usable(times)
        self.rejected_samples += not usable
        if usable and times.prefill_ms > 0 and self._prefill_ms is not None:
            self._prefill_ms = self._mix(self._prefill_ms, times.vision_ms + times.prefill_ms, False)

    def _mix(self, average: float, sample: float, replace: bool) -> float:
        return sample if replace else (1.0 - self._weight) * average + self._weight * sample
