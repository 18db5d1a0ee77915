# SPDX-License-Identifier: Apache-2.0
"""One control cycle in its hops: receive, admit, begin, embed, prefill, decode, commit, answer.

A refused cycle is answered at once. Where what is left of it holds an embedding and a prefill, its frame is
remembered behind the answer: begin, embed, prefill, commit, and nothing is decoded.

``ControlLoop`` is run by the reasoning thread, which owns engine, cache and estimator. It knows no ROS, no
thread and no engine by name; time comes in as two functions, so a test can run it on a fake clock.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.engines.base import Engine
from vla_edge_ros.errors import EngineError, EngineLostError, drop_tracebacks
from vla_edge_ros.kv_cache.cache import Chunk, KvCache
from vla_edge_ros.runtime.admission import Admission
from vla_edge_ros.runtime.camera_pace import CameraPace
from vla_edge_ros.runtime.cycle import Cycle
from vla_edge_ros.runtime.cycle_answers import CycleAnswers
from vla_edge_ros.runtime.draft_choice import DraftChoice
from vla_edge_ros.runtime.pinned_prompt import PinnedPrompt, Prompt
from vla_edge_ros.types import Action, CycleRecord, Frame, Outcome, Remembered

LOGGER = logging.getLogger(__name__)

Describe = Callable[[NDArray[np.uint8], NDArray[np.float32]], "NDArray[np.float32] | None"]
DecodeAction = Callable[[tuple[int, ...]], NDArray[np.float64]]


class NewestFrame(Protocol):
    """The reader's side of the frame slot."""

    def latest(self) -> Frame | None: ...


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
        """``prompt`` is pinned by ``pin_first_prompt``, once the engine is loaded."""
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
        # With parallel decoding a prefill is the whole chunk: one that fits is admitted, and gives an action.
        decodes = config.layout.decode_steps > 0
        self._remembers = config.admission.remember and cache.room > 0 and decodes
        self._pace = CameraPace()
        self._remembering_failed = False  # in the engine; not tried again until a chunk has run
        self._remembered_before: Remembered | None = None  # behind the last answer; no record has told it
        # The newest frame that was acted on or remembered: a frame is never inserted twice (fault A2).
        self._used_sequence = 0
        self._prompt = PinnedPrompt(prompt, engine, cache, flushes=config.prompt.on_change == "flush")
        # A scene changes little in one period, so the last action's tokens are the draft of the next one's.
        self._last_tokens: tuple[int, ...] = ()
        self._drafts = self._new_draft_choice()
        self.engine_lost = ""  # why the engine can never work again, once that is so

    @property
    def instruction(self) -> str:
        """The one that is in use, or waits to be."""
        return self._prompt.instruction

    def begin_run(self, *, forgets: bool) -> None:
        """Between two runs. ``forgets``: the kept frames, the last action's draft and whether drafts paid.

        The prompt stays, and that a frame was used: it is not acted on again.
        """
        self._remembered_before = None  # of the run before, whose last message is out
        if forgets:
            self._cache.flush()
            self._last_tokens = ()
            self._drafts = self._new_draft_choice()

    def _new_draft_choice(self) -> DraftChoice | None:
        return DraftChoice() if self._config.engine.draft == "last_action" else None

    def change_prompt(self, prompt: Prompt) -> None:
        """Use another prompt from the next cycle's frame on; a newer one replaces one that waits."""
        self._prompt.change(prompt)

    def pin_first_prompt(self) -> None:
        """Write the pinned tokens into the cache; before the first cycle, and before any frame is kept."""
        self._prompt.pin_first()

    def run_cycle(self, number: int, scheduled_ns: int, skipped: int = 0) -> CycleRecord | None:
        """Answer one grid point; None where the watchdog answered first."""
        cycle, frame = Cycle(number, scheduled_ns, skipped, self._steady_ns), None
        if self.engine_lost:
            cycle.end(Outcome.ENGINE_ERROR, self.engine_lost)
            return self._answer(cycle)
        try:
            self._prompt.write_waiting()
            if (frame := self._receive(cycle)) and self._admit(cycle):
                self._run_chunk(cycle, frame)
        except EngineError as error:
            self._take_error(error)
            cycle.times = None  # of a chunk that broke they say nothing
            cycle.end(Outcome.ENGINE_ERROR, str(error))
        record = self._answer(cycle)
        if record is not None and frame is not None and cycle.ended is Outcome.REFUSED:
            self._remember(cycle, frame)
        return record

    def _run_chunk(self, cycle: Cycle, frame: Frame) -> None:
        """From the frame's pixels to the action's tokens. What is not committed is rolled back."""
        with self._cache.begin(frame.sequence, frame.stamp_ns) as chunk:
            cycle.begin_chunk(chunk.view.slots_in_use)
            if self._embed(cycle, frame) and self._prefill(cycle, chunk):
                if self._decode(cycle, chunk):
                    self._commit(cycle, chunk)
                elif self._may_remember():  # decode steps touch no page of the frame
                    self._keep(cycle, chunk)
                    cycle.remembered = True
            elif self._prefills_alone(cycle, chunk):
                self._keep(cycle, chunk)
                cycle.remembered = True
        self._learn(cycle)

    def _prefills_alone(self, cycle: Cycle, chunk: Chunk) -> bool:
        """Run the prefill where an embedding took so long that a chunk no longer fits, but this does."""
        vision_ms, slots = cycle.times_with().vision_ms, self._cache.slots_next
        if not (vision_ms and self._may_remember()):
            return False
        if not self._admission.may_remember(cycle.elapsed_ms(), slots, embedded_ms=vision_ms):
            return False
        cycle.leave_draft()
        self._run_prefill(cycle, chunk)
        return True

    def _may_remember(self) -> bool:
        """Else the next cycle tries this frame again: by then there is no newer one to act on."""
        return self._remembers and self._pace.is_one_a_cycle

    def _remember(self, refused: Cycle, frame: Frame) -> None:
        """Keep the frame of a cycle that was refused and has been answered, where that ends in time."""
        cycle, may_try = refused.behind_answer(), self._may_remember() and not self._remembering_failed
        if not (may_try and self._admission.may_remember(cycle.elapsed_ms(), self._cache.slots_next)):
            return
        try:
            with self._cache.begin(frame.sequence, frame.stamp_ns) as chunk:
                cycle.begin_chunk(chunk.view.slots_in_use)
                if is_whole := self._embed(cycle, frame) and self._prefill(cycle, chunk):
                    self._keep(cycle, chunk)
        except EngineError as error:
            self._take_error(error)
            self._remembering_failed = True
            self._answers.failed_behind(str(error))
            if not self.engine_lost:
                LOGGER.warning("a refused frame could not be remembered: %s", error)
            return
        self._admission.learn_remembered(cycle.times_with())
        if is_whole:
            self._remembered_before = cycle.as_remembered()
            self._answers.remembered(frame.stamp_ns)

    # The hops, in order. One that ends the cycle without an action says why and returns what is false.

    def _receive(self, cycle: Cycle) -> Frame | None:
        """The newest frame, unless there is none, it is too old, or it was used before."""
        frame = self._slot.latest()
        if frame is None:
            cycle.end(Outcome.NO_FRAME_YET)
            return None
        cycle.take(frame, self._frame_time_ns(), self._cache.slots_in_use)
        self._pace.see(cycle.number, frame.sequence)
        if cycle.frame_age_ms > self._config.timing.max_frame_age_ms:
            cycle.end(Outcome.STALE_FRAME)
        elif frame.sequence <= self._used_sequence:
            cycle.end(Outcome.NO_NEW_FRAME)
        return None if cycle.ended else frame

    def _admit(self, cycle: Cycle) -> bool:
        """Can a chunk end in time? And is a draft of its action worth offering?"""
        elapsed_ms = cycle.elapsed_ms()
        if self._drafts:
            room_ms = self._config.timing.budget_ms - elapsed_ms
            cycle.draft = self._drafts.offer(self._last_tokens, room_ms)
        cycle.decision = self._admission.decide(elapsed_ms, self._cache.slots_next, bool(cycle.draft))
        return cycle.decision.admitted or cycle.end(Outcome.REFUSED)

    def _embed(self, cycle: Cycle, frame: Frame) -> bool:
        """Pixels to vision tokens, and to what the memory compares frames by."""
        if not self._is_in_time(cycle):
            return False
        vision = self._engine.embed_frame(frame.pixels)
        if not np.isfinite(vision.embedding).all():
            raise EngineError(f"frame {frame.sequence}: its embedding is not finite; expected finite numbers")
        cycle.descriptor = self._describe(frame.pixels, vision.embedding)
        cycle.measured(vision_ms=vision.vision_ms)
        return True

    def _prefill(self, cycle: Cycle, chunk: Chunk) -> bool:
        """All layers over the frame and what stands behind it."""
        if not self._is_in_time(cycle):
            return False
        self._run_prefill(cycle, chunk)
        return True

    def _decode(self, cycle: Cycle, chunk: Chunk) -> bool:
        """The action's tokens, with a look at the clock before each pass."""

        def must_abort(step_ms: tuple[float, ...]) -> bool:
            return self._admission.must_abort(cycle.elapsed_ms(), cycle.times_with(decode_ms=step_ms))

        decoded = self._engine.decode(chunk.view, self._config.action.tokens, must_abort)
        cycle.measured(decode_ms=decoded.step_ms, completed=not decoded.stopped)
        if decoded.stopped:
            return cycle.end(Outcome.ABORTED)
        cycle.tokens = decoded.tokens
        return True

    def _commit(self, cycle: Cycle, chunk: Chunk) -> None:
        """In time or not, the frame's keys and values are whole: keep the frame."""
        self._keep(cycle, chunk)
        self._last_tokens, self._remembering_failed = cycle.tokens, False

    def _answer(self, cycle: Cycle) -> CycleRecord | None:
        """Publish the action, or what the fallback ladder has in its place."""
        told, self._remembered_before = self._remembered_before, None  # once, also where a publish fails
        record = cycle.record(told)
        if cycle.ended:
            answered = self._answers.fall_back(record, cycle.scheduled_ns)
        else:
            action = Action(self._decode_action(cycle.tokens), record.frame_stamp_ns)
            answered = self._answers.act(record, action, cycle.scheduled_ns)
        if answered is None:  # the watchdog's answer was published, which does not tell
            self._remembered_before = told
        return answered

    # What the hops share

    def _run_prefill(self, cycle: Cycle, chunk: Chunk) -> None:
        prefill_ms = self._engine.prefill(chunk.view, cycle.draft, self._prompt.suffix)
        cycle.measured(prefill_ms=prefill_ms)

    def _keep(self, cycle: Cycle, chunk: Chunk) -> None:
        """The frame is in the memory, and not to be used again."""
        cycle.evicted_sequence = chunk.commit(cycle.descriptor)
        self._used_sequence = chunk.sequence

    def _take_error(self, error: EngineError) -> None:
        """The chunk, if one was open, has been rolled back. An exception that somebody keeps would keep, by
        its traceback, the lease on this cycle's frame."""
        drop_tracebacks(error)
        if isinstance(error, EngineLostError):
            self.engine_lost = str(error)
            LOGGER.error(self.engine_lost)  # once: from now on each cycle falls back without a word

    def _is_in_time(self, cycle: Cycle) -> bool:
        """Between two stages: can the rest of the chunk still end in time?"""
        too_late = self._admission.must_abort(cycle.elapsed_ms(), cycle.times_with())
        return not too_late or cycle.end(Outcome.ABORTED)

    def _learn(self, cycle: Cycle) -> None:
        times = cycle.times_with()
        self._admission.learn(times)
        if self._drafts and times.prefill_ms > 0:  # else it was aborted before a draft could matter
            self._drafts.learn(times)
