# SPDX-License-Identifier: Apache-2.0
"""A scripted engine, a clock that only moves when told, and a sink that remembers."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sleeping_engine import PIXELS, Recorder, SleepingEngine

from vla_edge_ros.config import CacheConfig, EngineConfig, ModelSource, PromptConfig, TimingConfig, VlaConfig
from vla_edge_ros.engines.base import Decoded, Vision
from vla_edge_ros.errors import EngineError
from vla_edge_ros.kv_cache.cache import KvCache
from vla_edge_ros.kv_cache.eviction import make_policy
from vla_edge_ros.runtime.camera_pace import WINDOW
from vla_edge_ros.runtime.control_loop import ControlLoop
from vla_edge_ros.runtime.cycle_answers import CycleAnswers
from vla_edge_ros.runtime.fallback import FallbackLadder
from vla_edge_ros.runtime.metrics import RunMetrics
from vla_edge_ros.runtime.pinned_prompt import Prompt
from vla_edge_ros.runtime.reasoner import Reasoner
from vla_edge_ros.types import NS_PER_MS, ActionSource, Decision, Frame, MemoryReport, Reason


class FakeClock:
    """Steady and frame time at once; ``now_ns`` moves when somebody works."""

    def __init__(self):
        self.now_ns = 1_000 * NS_PER_MS

    def __call__(self) -> int:
        return self.now_ns

    def work(self, ms: float) -> None:
        self.now_ns += round(ms * NS_PER_MS)


class ScriptedEngine:
    """Takes the times it is told to, fails where it is told to; tokens are 0, 1, 2, ..."""

    name = "scripted"

    def __init__(self, clock: FakeClock):
        self.clock = clock
        self.vision_ms, self.prefill_ms, self.step_ms = 1.0, 5.0, 1.0
        self.fail_at: str | None = None
        self.embedding = np.ones(8, np.float32)
        self.calls: list[str] = []
        self.views = []
        self.drafts = []
        self.prompts = []

    def _do(self, stage: str, ms: float) -> None:
        self.calls.append(stage)
        self.clock.work(ms)
        if self.fail_at == stage:
            raise EngineError(f"told to fail at {stage}")

    def load(self) -> None:
        self.calls.append("load")

    def write_prompt(self, token_ids, pages) -> None:
        self._do("prompt", 3.0)
        self.prompts.append((token_ids.tolist(), tuple(pages)))

    def embed_frame(self, pixels) -> Vision:
        self._do("vision", self.vision_ms)
        return Vision(self.embedding, self.vision_ms)

    def prefill(self, view, draft=(), suffix=()) -> float:
        self.views.append(view)
        self.drafts.append(tuple(draft))
        self._do("prefill", self.prefill_ms)
        return self.prefill_ms

    def decode(self, view, count, should_stop) -> Decoded:
        steps: tuple[float, ...] = ()
        for step in range(count - 1):
            if should_stop(steps):
                return Decoded(tuple(range(step + 1)), steps, True)
            self._do(f"decode{step}", self.step_ms)
            steps += (self.step_ms,)
        return Decoded(tuple(range(count)), steps, False)

    def memory(self) -> MemoryReport:
        return MemoryReport({"nothing": 0})

    def close(self) -> None:
        self.calls.append("close")


class ScriptedAdmission:
    """Admits unless told otherwise; aborts when the elapsed time has passed ``abort_after_ms``."""

    def __init__(self):
        self.admit = True
        self.abort_after_ms = 1e9
        self.learned = []
        self.asked_slots = []
        self.room_to_remember_ms = -1e9  # of the cycle; a frame may be remembered until then
        self.learned_remembered = []

    def calibrate(self, samples) -> None:
        self.calibrated = list(samples)

    def decide(self, elapsed_ms, slots_in_use, drafted=False) -> Decision:
        self.asked_slots.append(slots_in_use)
        reason = Reason.WITHIN_BUDGET if self.admit else Reason.OVER_BUDGET
        return Decision(self.admit, reason, elapsed_ms, 13.0, 31.0)

    def must_abort(self, elapsed_ms, so_far) -> bool:
        return elapsed_ms > self.abort_after_ms

    def learn(self, times) -> None:
        self.learned.append(times)

    def may_remember(self, elapsed_ms, slots_in_use, embedded_ms=0.0) -> bool:
        self.asked_to_remember = (elapsed_ms, slots_in_use, embedded_ms)
        return elapsed_ms <= self.room_to_remember_ms

    def learn_remembered(self, times) -> None:
        self.learned_remembered.append(times)


class Claims:
    """Claims as the native watchdog does; ``take`` is the watchdog's own claim."""

    def __init__(self):
        self.next_cycle = 1

    def claim(self, cycle: int) -> bool:
        if cycle < self.next_cycle:
            return False
        self.next_cycle = cycle + 1
        return True

    take = claim


class ListSink:
    def __init__(self):
        self.records = []

    def publish(self, record) -> None:
        self.records.append(record)

    @property
    def published(self):
        return [record for record in self.records if record.source is not ActionSource.NONE]


class ListSlot:
    """Lends the frame it was given last."""

    def __init__(self, clock: FakeClock):
        self.clock = clock
        self.frame: Frame | None = None
        self.sequence = 0

    def camera(self, age_ms: float = 0.0) -> Frame:
        self.sequence += 1
        pixels = np.full((64, 128, 3), self.sequence % 251, np.uint8)
        pixels[: self.sequence % 64] = 7  # a picture with structure, so that a thumbnail is not empty
        self.frame = Frame(pixels, self.clock.now_ns - round(age_ms * NS_PER_MS), self.sequence, True)
        return self.frame

    def latest(self) -> Frame | None:
        return self.frame


@pytest.fixture
def tiny_config() -> VlaConfig:
    return VlaConfig(
        model=ModelSource(preset="tiny"),
        cache=CacheConfig(capacity_slots=512, eviction="fifo", protect_latest=2),
        timing=TimingConfig(period_ms=33.0, deadline_ms=33.0),
        prompt=PromptConfig(max_pages=1),
        engine=EngineConfig(draft="last_action"),
    )


@pytest.fixture
def rig(tiny_config):
    """A control loop on fakes; ``rig.cycle()``: the camera delivers and one cycle runs."""

    def build(config: VlaConfig = tiny_config) -> SimpleNamespace:
        clock, sink, claims = FakeClock(), ListSink(), Claims()
        engine, admission, slot = ScriptedEngine(clock), ScriptedAdmission(), ListSlot(clock)
        cache = KvCache(config.cache, make_policy(config.cache), config.layout)
        cache.set_prompt(5)
        ladder = FallbackLadder(config.fallback, config.action)
        metrics = RunMetrics(config.timing.deadline_ms)
        answers = CycleAnswers(claims, ladder, sink, metrics, clock, 33 * NS_PER_MS, clock)
        answers.open()
        loop = ControlLoop(
            config,
            slot=slot,
            engine=engine,
            cache=cache,
            admission=admission,
            answers=answers,
            describe=lambda pixels, embedding: None,
            prompt=Prompt("the first", np.arange(5)),
            decode_action=lambda tokens: np.array(tokens, np.float64) / 10 + 0.1,
            frame_time_ns=clock,
            steady_ns=clock,
        )
        rig = SimpleNamespace(**{k: v for k, v in locals().items() if k != "config"}, config=config, number=0)

        def brisk() -> None:
            """As after cycles in which the camera brought a new frame each."""
            for back in range(WINDOW, -1, -1):
                loop._pace.see(rig.number - back, slot.sequence - back)

        def cycle(camera: bool = True, **camera_options):
            rig.number += 1
            clock.now_ns = (1_000 + rig.number * 33) * NS_PER_MS
            if camera:
                slot.camera(**camera_options)
            return loop.run_cycle(rig.number, clock.now_ns)

        rig.cycle, rig.brisk = cycle, brisk
        brisk()
        return rig

    rig = build()
    rig.build = build
    return rig


@pytest.fixture
def run(tiny_config, request):
    """A warm reasoner at a 20 ms period on a sleeping engine, with a camera that is called by hand.

    Parametrised indirectly: sections of the configuration to replace.
    """
    timing = TimingConfig(period_ms=20.0, deadline_ms=20.0, max_frame_age_ms=1e4)
    config = replace(tiny_config, **({"timing": timing} | getattr(request, "param", {})))
    engine, sink, crashes = SleepingEngine(), Recorder(), []
    reasoner = Reasoner(config, engine, sink, time.monotonic_ns, crashes.append)
    reasoner.engine, reasoner.sink, reasoner.crashes = engine, sink, crashes
    reasoner.camera = lambda: reasoner.slot.write(PIXELS, time.monotonic_ns())
    reasoner.warm_up()
    yield reasoner
    engine.release.set()
    reasoner.close()
