# SPDX-License-Identifier: Apache-2.0
"""Warm-up, admission and the whole reasoner over every sequence layout."""

from __future__ import annotations

import csv
import importlib.util
import threading
import time

import numpy as np
import pytest
from sequence_layouts import LAYOUTS, config_of

from vla_edge_ros.config import AdmissionConfig, TimingConfig, VlaConfig
from vla_edge_ros.engines.base import Decoded, Vision
from vla_edge_ros.engines.numpy_engine import NumpyEngine
from vla_edge_ros.model.weights import open_weights
from vla_edge_ros.recording.cycle_table import columns, read_table, to_row
from vla_edge_ros.runtime.admission import make_admission
from vla_edge_ros.runtime.cost_model import CostModel
from vla_edge_ros.runtime.reasoner import Reasoner
from vla_edge_ros.runtime.warm_up import MEASURED, measure_chunks
from vla_edge_ros.types import CycleRecord, MemoryReport, Outcome

VISION_MS, ROW_MS, STEP_MS = 5.0, 0.1, 2.5
CYCLES = 10
# Chunks take some milliseconds here; a busy machine has the rest.
CALM = TimingConfig(period_ms=400.0, deadline_ms=400.0, max_frame_age_ms=1e5)


class CountingEngine:
    """Takes ``ROW_MS`` for each row of a prefill and ``STEP_MS`` for each decode step of its layout."""

    name = "counting"

    def __init__(self, config: VlaConfig):
        self._layout = config.layout
        self.suffixes: list[int] = []

    def embed_frame(self, pixels):
        return Vision(np.ones(64, np.float32), VISION_MS)

    def prefill(self, view, draft=(), suffix=()):
        self.suffixes.append(len(suffix))
        return ROW_MS * (self._layout.frame_tokens + len(suffix))

    def decode(self, view, count, should_stop):
        return Decoded(tuple(range(count)), (STEP_MS,) * self._layout.decode_steps, False)

    def load(self): ...

    def write_prompt(self, token_ids, pages): ...

    def memory(self):
        return MemoryReport()

    def close(self): ...


def expected_chunk_ms(config: VlaConfig) -> float:
    layout = config.layout
    rows = layout.frame_tokens + layout.suffix_tokens
    return VISION_MS + ROW_MS * rows + STEP_MS * layout.decode_steps


@pytest.mark.parametrize("name", LAYOUTS)
def test_warm_up_measures_each_fill_that_there_is_with_the_longest_suffix(name):
    config, layout = config_of(name), config_of(name).layout
    engine = CountingEngine(config)
    samples = measure_chunks(config, engine)
    fills = sorted({times.slots_in_use for times in samples})
    frames = config.cache.pages // layout.frame_pages  # at most so many
    assert len(fills) == (1 if config.cache.max_frames == 0 else 3)
    assert fills[0] == layout.frame_tokens and fills[-1] <= frames * layout.frame_tokens
    assert len(samples) == MEASURED * len(fills)
    assert {len(times.decode_ms) for times in samples} == {layout.decode_steps}
    assert set(engine.suffixes) == {layout.suffix_tokens}


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_cost_of_a_chunk_is_vision_a_prefill_with_the_suffix_and_the_layouts_steps(name):
    config = config_of(name)
    samples = measure_chunks(config, CountingEngine(config))
    model = CostModel()
    model.calibrate(samples)
    slots = config.layout.frame_tokens
    assert model.steps() == config.layout.decode_steps
    assert model.chunk_ms(slots) == pytest.approx(expected_chunk_ms(config))
    step_ms = STEP_MS if config.layout.decode_steps else 0.0
    assert model.forecast(slots).step_ms == pytest.approx(step_ms)


@pytest.mark.parametrize("policy", ["robust", "ema"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_admission_asks_for_no_step_that_the_layout_has_not(name, policy):
    """A budget just above a chunk's cost admits it, one just below does not."""
    config = config_of(name)
    samples = measure_chunks(config, CountingEngine(config))
    chunk_ms = expected_chunk_ms(config)
    for spare_ms, admits in ((0.1, True), (-0.1, False)):
        timing = TimingConfig(period_ms=100.0, deadline_ms=chunk_ms + 2.0 + spare_ms, margin_ms=2.0)
        admission = make_admission(timing, AdmissionConfig(policy=policy))
        admission.calibrate(samples)
        if policy == "ema":  # it learns from its first chunk
            admission.decide(0.0, config.layout.frame_tokens)
            admission.learn(samples[0])
        decision = admission.decide(0.0, config.layout.frame_tokens)
        assert decision.predicted_ms == pytest.approx(chunk_ms)
        assert decision.admitted is admits


class Camera:
    """A sink that delivers the next frame with each answer, so that every cycle has a new one."""

    def __init__(self, config: VlaConfig):
        self.records: list[CycleRecord] = []
        self.is_done = threading.Event()
        self._pixels = np.random.default_rng(3).integers(
            0, 256, (CYCLES, config.frame.height, config.frame.width, 3), dtype=np.uint8
        )

    def deliver(self) -> None:
        self.reasoner.slot.write(self._pixels[len(self.records) % CYCLES], time.monotonic_ns())

    def publish(self, record: CycleRecord) -> None:
        self.records.append(record)
        if len(self.records) == CYCLES:
            self.is_done.set()
        self.deliver()


@pytest.fixture(params=LAYOUTS)
def ten_cycles(request):
    """``(configuration, records)`` of ten cycles of the whole reasoner."""
    config = config_of(request.param, timing=CALM)
    crashes: list[str] = []
    camera = Camera(config)
    engine = NumpyEngine(config, open_weights(config.model))
    camera.reasoner = Reasoner(config, engine, camera, time.monotonic_ns, crashes.append)
    try:
        camera.reasoner.warm_up()
        camera.deliver()
        camera.reasoner.start()
        assert camera.is_done.wait(60)
    finally:
        camera.reasoner.stop()
        camera.reasoner.close()
    assert crashes == []
    return config, camera.records[:CYCLES]


def test_ten_cycles_act_and_status_and_table_carry_them(ten_cycles, tmp_path):
    config, records = ten_cycles
    layout = config.layout
    assert [record.outcome for record in records] == [Outcome.ACTED] * CYCLES
    assert [len(record.times.decode_ms) for record in records] == [layout.decode_steps] * CYCLES
    assert all(len(record.tokens) == layout.action_tokens for record in records)
    room = layout.room(config.cache.pages)
    seen = [record.times.slots_in_use for record in records]
    prompt = seen[0] - layout.frame_tokens
    assert 0 <= prompt <= layout.prompt_pages * layout.page_slots
    assert seen == [prompt + (1 + min(kept, room)) * layout.frame_tokens for kept in range(CYCLES)]

    table = tmp_path / "cycles.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns(config.action.names))
        writer.writerows(to_row(record, len(config.action.names)) for record in records)
    read = read_table(table)
    assert [(r.outcome, r.tokens, len(r.times.decode_ms)) for r in read] == [
        (r.outcome, r.tokens, len(r.times.decode_ms)) for r in records
    ]
    if importlib.util.find_spec("diagnostic_msgs") is None:
        return
    from vla_edge_ros.ros.messages import to_status

    for record in records:
        (status,) = to_status(record, "node", record.frame_stamp_ns).status
        values = {pair.key: pair.value for pair in status.values}
        assert values["outcome"] == "acted" and values["decode_steps"] == str(layout.decode_steps)
