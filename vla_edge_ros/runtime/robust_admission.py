# SPDX-License-Identifier: Apache-2.0
"""The default rule: calibrated cost times the machine's present level, re-checked while the chunk runs.

A re-checked chunk is aborted cheaply and in time, so admission plans with the median; a high quantile would
refuse chunks that mostly fit (docs/explanation/admission.md has the figures for both).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from vla_edge_ros.config import AdmissionConfig, TimingConfig
from vla_edge_ros.runtime.cost_model import LEVEL_SAMPLES, CostModel
from vla_edge_ros.runtime.probing import ProbeSchedule, is_usable, probe_must_stop
from vla_edge_ros.types import ChunkTimes, Decision, Reason

PACE_ERROR = 0.03  # how far off one stage's pace may be; only for stages before which there is another check
HYSTERESIS = 0.01  # after a refusal the prediction must clear the budget by this share of it


class RobustAdmission:
    """Admits while elapsed + (a + b * slots) * (level + spread) <= deadline - margin.

    Chunks with a draft have a model of their own: other stages, and a distribution of steps.
    """

    def __init__(self, timing: TimingConfig, admission: AdmissionConfig):
        self.model, self.drafted_model = CostModel(), CostModel()
        # Of embedding and prefill, by the latest chunks of either kind. A stage's own level is raised and
        # never lowered by aborted chunks; where all of them are, it could keep frames out for ever.
        self._frame_levels: deque[float] = deque([1.0] * LEVEL_SAMPLES, maxlen=LEVEL_SAMPLES)
        self._running = self.model  # that of the chunk which was decided on last
        self.rejected_samples = 0
        self._budget_ms = timing.budget_ms
        self._limit_ms = timing.chunk_limit_ms
        self._quantile = admission.cost_quantile
        self._probes = ProbeSchedule(admission.probe_after, admission.probe_every_max)
        self._refusing = False
        self._forecast = self.model.forecast(0)
        self._start_ms = 0.0
        self._overhead_ms = 0.0

    def calibrate(self, samples: Sequence[ChunkTimes]) -> None:
        self.rejected_samples += sum(not is_usable(times) for times in samples)
        self.model.calibrate([times for times in samples if not times.drafted])
        self.drafted_model.calibrate([times for times in samples if times.drafted])
        self._frame_levels.extend([1.0] * LEVEL_SAMPLES)

    def decide(self, elapsed_ms: float, slots_in_use: int, drafted: bool = False) -> Decision:
        self._running = self._model_of(drafted)
        self._forecast = self._running.forecast(slots_in_use, self._quantile)
        if self._forecast.step_ms == 0:  # none was rejected yet: a plain step is the best estimate
            step_ms = self.model.forecast(slots_in_use, self._quantile).step_ms
            self._forecast = replace(self._forecast, step_ms=step_ms)
        predicted_ms = self._forecast.chunk_ms
        self._start_ms, self._overhead_ms = elapsed_ms, 0.0
        reason = self._reason(elapsed_ms, predicted_ms)
        return Decision(reason.admits, reason, elapsed_ms, predicted_ms, self._budget_ms)

    def _model_of(self, drafted: bool) -> CostModel:
        """An engine that does not use drafts was not calibrated with them: all its chunks are plain ones."""
        return self.drafted_model if drafted and self.drafted_model.is_ready else self.model

    def _reason(self, elapsed_ms: float, predicted_ms: float) -> Reason:
        if not elapsed_ms < self._budget_ms:
            return Reason.NO_TIME_LEFT
        if not self._running.is_ready:
            return Reason.FIRST_CHUNK
        room = 1.0 - HYSTERESIS if self._refusing else 1.0
        if elapsed_ms + predicted_ms <= self._budget_ms * room:
            self._refusing = False
            self._probes.admitted()
            return Reason.WITHIN_BUDGET
        self._refusing = True
        return self._probes.instead_of_refusal()

    def must_abort(self, elapsed_ms: float, so_far: ChunkTimes) -> bool:
        self._overhead_ms = max(self._overhead_ms, elapsed_ms - self._start_ms - so_far.total_ms)
        slow_down = max(1.0, self._forecast.slow_down(so_far))
        if not self._running.is_ready or self._probes.running:
            assumed_ms = self._running.calibrated_step_ms(so_far.slots_in_use) * slow_down
            return probe_must_stop(self._limit_ms, elapsed_ms, so_far, self._running.steps(), assumed_ms)
        rest_ms = self._forecast.rest_ms(so_far)
        asked_again_ms = rest_ms - self._forecast.next_ms(so_far)
        rest_ms = (rest_ms - PACE_ERROR * max(0.0, asked_again_ms)) * slow_down
        return not elapsed_ms + rest_ms <= self._limit_ms

    def learn(self, times: ChunkTimes) -> None:
        usable = is_usable(times)
        self.rejected_samples += not usable
        end_ms = self._start_ms + self._overhead_ms + times.total_ms
        self._probes.report(usable and times.completed and end_ms <= self._limit_ms)
        if not usable:
            return
        model = self._model_of(times.drafted)
        if times.completed:
            model.learn_whole(times, self._overhead_ms)
        else:
            model.learn_aborted(times)
        self._note_frame_level(times)

    def may_remember(self, elapsed_ms: float, slots_in_use: int, embedded_ms: float = 0.0) -> bool:
        """By the budget that a chunk must clear after a refusal, which this is."""
        if not self.model.is_ready:
            return False
        level = median(self._frame_levels)
        self._running = self.model
        self._forecast = self.model.frame_forecast(slots_in_use, self._quantile, level)
        # Where the embedding is done, its forecast and not its measured time: a slow one foretells a slow
        # prefill, and the difference stays in the sum as a margin.
        done_ms = self._forecast.vision_ms if embedded_ms else 0.0
        return elapsed_ms + self._forecast.chunk_ms - done_ms <= self._budget_ms * (1.0 - HYSTERESIS)

    def learn_remembered(self, times: ChunkTimes) -> None:
        usable = is_usable(times)
        self.rejected_samples += not usable
        if usable:
            self.model.learn_frame(times)
            self._note_frame_level(times)

    def _note_frame_level(self, times: ChunkTimes) -> None:
        profile_ms = self._model_of(times.drafted).frame_ms(times.slots_in_use)
        if times.prefill_ms > 0 and profile_ms > 0:
            self._frame_levels.append((times.vision_ms + times.prefill_ms) / profile_ms)
