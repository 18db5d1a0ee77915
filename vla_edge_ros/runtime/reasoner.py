# SPDX-License-Identifier: Apache-2.0
"""The reasoning runtime put together: slot, loop, watchdog, and the two threads that run them.

| thread    | runs                      | touches                                              |
|-----------|---------------------------|------------------------------------------------------|
| caller    | image callback, lifecycle | ``slot.write``, ``set_instruction``, start and stop  |
| reasoning | ``ControlLoop.run_cycle`` | engine, cache, estimator; publishes what it claims   |
| watchdog  | waits for expired cycles  | publishes the fallback for the cycles that it claims |
"""

from __future__ import annotations

import gc
import logging
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import replace

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.engines.base import Engine
from vla_edge_ros.errors import EngineError, EngineLostError, drop_tracebacks
from vla_edge_ros.kv_cache.cache import KvCache
from vla_edge_ros.kv_cache.descriptor import describe
from vla_edge_ros.kv_cache.eviction import make_policy
from vla_edge_ros.model.action_head import ActionHead
from vla_edge_ros.model.decoder_config import resolve
from vla_edge_ros.model.prompt import prompt_tokens
from vla_edge_ros.runtime.action_sink import ActionSink
from vla_edge_ros.runtime.admission import make_admission
from vla_edge_ros.runtime.control_loop import ControlLoop
from vla_edge_ros.runtime.cycle_answers import CycleAnswers
from vla_edge_ros.runtime.cycle_clock import CycleClock
from vla_edge_ros.runtime.deadline_watchdog import DeadlineWatchdog
from vla_edge_ros.runtime.fallback import FallbackLadder
from vla_edge_ros.runtime.frame_slot import FrameSlot
from vla_edge_ros.runtime.metrics import RunMetrics
from vla_edge_ros.runtime.pinned_prompt import Prompt
from vla_edge_ros.runtime.thread_priority import take_realtime_priority
from vla_edge_ros.runtime.warm_up import measure_chunks, over_budget
from vla_edge_ros.types import NS_PER_MS, CycleRecord, Outcome

LOGGER = logging.getLogger(__name__)

# A forward pass cannot be interrupted; the process must be gone two seconds after it was asked to stop.
JOIN_SECONDS = 1.0

# How long a thread may keep the GIL while the watchdog asks for it. Python's default, 5 ms, is longer than
# the watchdog's lead before the deadline.
SWITCH_INTERVAL_S = 0.0001


class Reasoner:
    """``warm_up`` once, then ``start`` and ``stop`` as often as wanted, then ``close``."""

    def __init__(
        self,
        config: VlaConfig,
        engine: Engine,
        sink: ActionSink,
        frame_time_ns: Callable[[], int],
        on_crash: Callable[[str], None],
    ):
        """``frame_time_ns``: now, in the clock of the frames' stamps. ``on_crash`` takes a traceback."""
        timing = config.timing
        self._config = config
        self._engine = engine
        self._on_crash = on_crash
        self._threads: list[threading.Thread] = []
        self._period_ns = round(timing.period_ms * NS_PER_MS)
        self._answer_by_ns = round((timing.deadline_ms - timing.publish_lead_ms) * NS_PER_MS)
        policy = make_policy(config.cache)
        decoder = resolve(config.model)
        head = ActionHead(config.action, decoder.vocab_size)
        self.slot = FrameSlot(config.frame.height, config.frame.width)
        self.cache = KvCache.for_model(config, policy, decoder.hidden_size)
        self._clock = CycleClock(self._period_ns, round(timing.spin_us * 1000))
        self._watchdog = DeadlineWatchdog(self._period_ns)
        self._admission = admission = make_admission(timing, config.admission)
        self.metrics = RunMetrics(timing.deadline_ms, rejected_samples=lambda: admission.rejected_samples)
        self._ladder = FallbackLadder(config.fallback, config.action)
        self._answers = CycleAnswers(
            self._watchdog, self._ladder, sink, self.metrics, frame_time_ns, self._period_ns
        )
        instruction = config.prompt.instruction
        self._loop = ControlLoop(
            config,
            slot=self.slot,
            engine=engine,
            cache=self.cache,
            admission=self._admission,
            answers=self._answers,
            describe=lambda pixels, embedding: describe(policy.descriptor, pixels, embedding),
            decode_action=head.decode,
            prompt=Prompt(instruction, *prompt_tokens(instruction, config)),
            frame_time_ns=frame_time_ns,
        )

    def warm_up(self) -> None:
        """Load the engine, calibrate admission, pin the prompt. Takes seconds; raises what it cannot do."""
        self._engine.load()
        samples = measure_chunks(self._config, self._engine)
        self._admission.calibrate(samples)
        if warning := over_budget(self._config, samples):
            LOGGER.warning(warning)
        self._loop.pin_first_prompt()
        # What is alive now stays alive: a full collection would stop the reasoning thread to look at it.
        gc.collect()
        gc.freeze()
        sys.setswitchinterval(SWITCH_INTERVAL_S)

    def start(self) -> None:
        """Start both threads on a fresh grid.

        ``EngineError`` where the run before still computes, or the engine can never work again. Of that run
        the prompt and what was learned of the machine's speed stay; what was seen is forgotten, unless
        ``cache.keep_on_deactivate`` says otherwise. Its last action is not repeated in either case.
        """
        if any(thread.is_alive() for thread in self._threads):
            raise EngineError("expected the run before to have ended, but its engine still computes a chunk")
        if self._loop.engine_lost:
            raise EngineLostError(self._loop.engine_lost)
        self._loop.begin_run(forgets=not self._config.cache.keep_on_deactivate)
        self.metrics.reset()
        self._answers.open()
        self._epoch_ns = self._clock.start()
        # Cycle 0 is the grid's epoch, already past when the first wait begins.
        self._watchdog.arm(1, self._epoch_ns + self._period_ns + self._answer_by_ns)
        self._threads = [
            threading.Thread(target=self._reason, name="vla_reasoning", daemon=True),
            threading.Thread(target=self._watch, name="vla_watchdog", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop both threads, then publish zero motion: the last message. Safe to call when not started."""
        self._clock.stop()
        self._watchdog.stop()
        for thread in self._threads:
            thread.join(JOIN_SECONDS)
        self._answers.finish()

    def close(self) -> None:
        """Stop and give the engine's memory back; safe to call twice."""
        self.stop()
        if any(thread.is_alive() for thread in self._threads):
            LOGGER.warning("the engine still computes a chunk; its memory is given back with the process")
            return
        self._engine.close()

    def check_instruction(self, text: str) -> Prompt:
        """With its token ids; ``ConfigError`` where it is blank, ``InstructionError`` where too long."""
        replace(self._config.prompt, instruction=text)
        return Prompt(text, *prompt_tokens(text, self._config))

    def set_instruction(self, text: str) -> bool:
        """Pin another instruction from the next cycle on; raises as ``check_instruction`` does.

        False, and nothing changes, where it is the one that is pinned or waits to be: a planner may repeat
        itself, and what the camera saw must not be forgotten for that.
        """
        if text == self.instruction:
            return False
        self._loop.change_prompt(self.check_instruction(text))
        return True

    @property
    def instruction(self) -> str:
        """The one that is pinned, or waits to be; one that the engine failed on is given up."""
        return self._loop.instruction

    def _take_priority(self) -> None:
        if refusal := take_realtime_priority(self._config.timing.realtime_priority):
            LOGGER.warning(refusal)

    def _reason(self) -> None:
        self._take_priority()
        while (tick := self._clock.wait_next()) is not None:
            cycle, scheduled_ns, _, skipped = tick
            try:
                self._loop.run_cycle(cycle, scheduled_ns, skipped)
            except Exception as error:  # nothing may end this thread: the robot would be left without answers
                self._report_crash()
                drop_tracebacks(error)  # they hold the lease on this cycle's frame
                self._answer_crash(CycleRecord(cycle, Outcome.ENGINE_ERROR, error=repr(error)), scheduled_ns)

    def _report_crash(self) -> None:
        """Called where an exception is handled; whoever takes the report must not end the thread either."""
        try:
            self._on_crash(traceback.format_exc())
        except Exception:
            LOGGER.exception("a crash could not be reported")

    def _answer_crash(self, record: CycleRecord, scheduled_ns: int) -> None:
        try:
            self._answers.fall_back(record, scheduled_ns)
        except Exception:  # the publisher itself is broken: say so, and go on trying every period
            self._report_crash()

    def _watch(self) -> None:
        self._take_priority()
        while (cycle := self._watchdog.wait()) is not None:
            try:
                self._answers.expire(cycle, self._epoch_ns + cycle * self._period_ns)
            except Exception:  # as above: the next period is another chance
                self._report_crash()
