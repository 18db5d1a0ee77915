# SPDX-License-Identifier: Apache-2.0
"""One control cycle, in the hops and words of the design: slot, admission, memory, prefill, decode, action.

``ControlLoop`` is run by the reasoning thread, which owns engine, cache and estimator. It knows no ROS, no
thread and no engine by name; time comes in as two functions, so a test can run it on a fake clock.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.engines.base import Engine
from vla_edge_ros.errors import EngineError, EngineLostError, drop_tracebacks
from vla_edge_ros.kv_cache.cache import Chunk, KvCache
from vla_edge_ros.runtime.admission import Admission
from vla_edge_ros.runtime.cycle_answers import CycleAnswers
from vla_edge_ros.runtime.draft_choice import DraftChoice
from vla_edge_ros.types import NS_PER_MS, Action, ChunkTimes, CycleRecord, Frame, Outcome

LOGGER = logging.getLogger(__name__)

Describe = Callable[[NDArray[np.uint8], NDArray[np.float32]], "NDArray[np.float32] | None"]
DecodeAction = Callable[[tuple[int, ...]], NDArray[np.float64]]


class NewestFrame(Protocol):
    """The reader's side of the frame slot."""

    def latest(self) -> Frame | None: ...


@dataclass(frozen=True, slots=True)
class Prompt:
    """Token ids of an instruction, int64 ``[p]``, waiting to be pinned."""

    instruction: str
    token_ids: NDArray[np.int64]


class _TooLate(Exception):
    """Leaves the chunk's ``with`` block, which rolls back; never leaves this module."""


class ControlLoop:
    """Runs cycles. Not thread-safe but for ``change_prompt``, which any thread may call."""

    def __init__(
        self,
        config: VlaConfig,
        *,
        slot: NewestFrame,
        engine: Engine,
        cache: KvCache,
        admission: Admission,
        answers: CycleAnswers,
        describe: Describe,
        decode_action: DecodeAction,
        prompt: Prompt,
        frame_time_ns: Callable[[], int],
        steady_ns: Callable[[], int] = time.monotonic_ns,
    ):
        self._config = config
        self._slot = slot
        self._engine = engine
        self._cache = cache
        self._admission = admission
        self._answers = answers
        self._describe = describe
        self._decode_action = decode_action
        self._frame_time_ns = frame_time_ns
        self._steady_ns = steady_ns
        # The newest frame in the cache: a frame is never inserted twice (fault A2).
        self._used_sequence = 0
        self._pinned_prompt = prompt  # in the cache since warm-up
        self._next_prompt: Prompt | None = None
        # A scene changes little in one period, so the last action's tokens are the guess at the next ones.
        self._last_tokens: tuple[int, ...] = ()
        self._drafts = self._new_draft_choice()
        self._draft: tuple[int, ...] = ()  # of this cycle
        self._scheduled_ns = 0
        self._progress = ChunkTimes(0)
        self.engine_lost = ""  # why the engine can never work again, once that is so

    @property
    def instruction(self) -> str:
        """The one that is pinned, or waits to be."""
        return (self._next_prompt or self._pinned_prompt).instruction

    def forget(self) -> None:
        """Between two runs: forget the kept frames, the last action's draft and whether drafts paid.

        The prompt stays, and that a frame was used: it is not acted on again.
        """
        self._cache.flush()
        self._last_tokens = self._draft = ()
        self._drafts = self._new_draft_choice()

    def _new_draft_choice(self) -> DraftChoice | None:
        return DraftChoice() if self._config.engine.draft == "last_action" else None

    def change_prompt(self, prompt: Prompt) -> None:
        """Rewrite the pinned prompt before the next cycle's frame; a newer prompt replaces a waiting one."""
        self._next_prompt = prompt

    def run_cycle(self, cycle: int, scheduled_ns: int, skipped: int = 0) -> CycleRecord | None:
        """Answer one grid point; None where the watchdog answered first."""
        self._scheduled_ns = scheduled_ns
        record = CycleRecord(cycle, Outcome.NO_FRAME_YET, skipped_cycles=skipped)
        if self.engine_lost:
            return self._fall_back(replace(record, outcome=Outcome.ENGINE_ERROR, error=self.engine_lost))
        try:
            self._write_waiting_prompt()
            frame = self._slot.latest()
            if frame is None:
                return self._fall_back(record)
            record = self._judge(record, frame)
            if record.outcome is not Outcome.ACTED:
                return self._fall_back(record)
            return self._run_chunk(frame, record)
        except EngineError as error:
            # The chunk, if one was open, has been rolled back on the way here. An exception that somebody
            # keeps would keep, by its traceback, the lease on this cycle's frame.
            drop_tracebacks(error)
            if isinstance(error, EngineLostError):
                self.engine_lost = str(error)
                LOGGER.error(self.engine_lost)  # once: from now on each cycle falls back without a word
            return self._fall_back(replace(record, outcome=Outcome.ENGINE_ERROR, error=str(error)))

    def _write_waiting_prompt(self) -> None:
        """Pin a changed instruction. One that the engine fails on is given up for the one before."""
        prompt = self._next_prompt
        if prompt is None:
            return
        if self._config.prompt.on_change == "flush":
            self._cache.flush()
        try:
            self._engine.write_prompt(prompt.token_ids, self._cache.set_prompt(len(prompt.token_ids)))
        except Exception:
            # Its pages hold garbage now. The one before has worked; it is tried until it works again.
            self._replace_waiting(prompt, self._pinned_prompt)
            raise
        self._pinned_prompt = prompt
        self._replace_waiting(prompt, None)

    def _replace_waiting(self, prompt: Prompt, successor: Prompt | None) -> None:
        if self._next_prompt is prompt:  # else a newer one came in meanwhile
            self._next_prompt = successor

    def _judge(self, record: CycleRecord, frame: Frame) -> CycleRecord:
        """Is there something to act on, and the time for it? The outcome ACTED says yes so far."""
        # A clock that was set back must not make a frame look fresher than now.
        age_ms = max(0, self._frame_time_ns() - frame.stamp_ns) / NS_PER_MS
        decision = None
        if age_ms > self._config.timing.max_frame_age_ms:
            outcome = Outcome.STALE_FRAME
        elif frame.sequence <= self._used_sequence:
            outcome = Outcome.NO_NEW_FRAME
        else:
            elapsed_ms = self._elapsed_ms()
            if self._drafts:
                room_ms = self._config.timing.budget_ms - elapsed_ms
                self._draft = self._drafts.offer(self._last_tokens, room_ms)
            decision = self._admission.decide(elapsed_ms, self._cache.slots_next, bool(self._draft))
            outcome = Outcome.ACTED if decision.admitted else Outcome.REFUSED
        return replace(
            record,
            outcome=outcome,
            decision=decision,
            frame_sequence=frame.sequence,
            frame_stamp_ns=frame.stamp_ns,
            frame_age_ms=age_ms,
            slots_in_use=self._cache.slots_in_use,
        )

    def _run_chunk(self, frame: Frame, record: CycleRecord) -> CycleRecord | None:
        self._progress = ChunkTimes(self._cache.slots_next, drafted=bool(self._draft))
        try:
            with self._cache.begin(frame.sequence, frame.stamp_ns) as chunk:
                tokens, descriptor = self._compute(frame, chunk)
                # In time or not, the frame's keys and values are whole: keep the frame.
                evicted = chunk.commit(descriptor)
        except _TooLate:
            self._learn()
            return self._fall_back(replace(record, outcome=Outcome.ABORTED, times=self._progress))
        self._used_sequence = frame.sequence
        self._last_tokens = tokens
        self._learn()
        record = replace(record, times=self._progress, tokens=tokens, evicted_sequence=evicted)
        return self._answers.act(
            record, Action(self._decode_action(tokens), frame.stamp_ns), self._scheduled_ns
        )

    def _compute(self, frame: Frame, chunk: Chunk) -> tuple[tuple[int, ...], NDArray[np.float32] | None]:
        """Vision, prefill, decode steps, with a look at the clock before each."""
        self._progress = replace(self._progress, slots_in_use=chunk.view.slots_in_use)
        self._check_time()
        vision = self._engine.embed_frame(frame.pixels)
        if not np.isfinite(vision.embedding).all():
            raise EngineError(f"frame {frame.sequence}: its embedding is not finite; expected finite numbers")
        descriptor = self._describe(frame.pixels, vision.embedding)
        self._progress = replace(self._progress, vision_ms=vision.vision_ms)
        self._check_time()
        prefill_ms = self._engine.prefill(chunk.view, self._draft)
        self._progress = replace(self._progress, prefill_ms=prefill_ms)
        decoded = self._engine.decode(chunk.view, self._config.action.tokens, self._must_stop)
        self._progress = replace(self._progress, decode_ms=decoded.step_ms, completed=not decoded.stopped)
        if decoded.stopped:
            raise _TooLate
        return decoded.tokens, descriptor

    def _learn(self) -> None:
        self._admission.learn(self._progress)
        if self._drafts and self._progress.prefill_ms > 0:  # else it was cut before a draft could matter
            self._drafts.learn(self._progress)

    def _check_time(self) -> None:
        if self._admission.must_abort(self._elapsed_ms(), self._progress):
            raise _TooLate

    def _must_stop(self, step_ms: tuple[float, ...]) -> bool:
        return self._admission.must_abort(self._elapsed_ms(), replace(self._progress, decode_ms=step_ms))

    def _fall_back(self, record: CycleRecord) -> CycleRecord | None:
        return self._answers.fall_back(record, self._scheduled_ns)

    def _elapsed_ms(self) -> float:
        return (self._steady_ns() - self._scheduled_ns) / NS_PER_MS
