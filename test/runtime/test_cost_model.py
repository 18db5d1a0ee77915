# SPDX-License-Identifier: Apache-2.0
"""The cost model against costs that are known, and against what must not move it."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vla_edge_ros.runtime.cost_model import MAX_SPREAD, CostModel, fit_line
from vla_edge_ros.types import ChunkTimes

FILLS = (32, 2048, 4064)


def whole(slots: int, factor: float = 1.0, vision: float = 1.0) -> ChunkTimes:
    """The machine of these tests: 0.2 ms vision, 5..6 ms prefill, 7 steps of 2..3 ms."""
    fill = slots / 4096
    steps = ((2.0 + fill) * factor,) * 7
    return ChunkTimes(slots, 0.2 * factor * vision, (5.0 + fill) * factor, steps, completed=True)


def calibrated() -> CostModel:
    model = CostModel()
    model.calibrate([whole(slots) for slots in FILLS for _ in range(3)])
    return model


@given(
    st.lists(
        st.tuples(st.integers(0, 4096), st.floats(0.1, 100.0)),
        min_size=2,
        max_size=12,
        unique_by=lambda p: p[0],
    )
)
def test_line_is_the_least_squares_line_where_its_slope_is_not_negative(points):
    line = fit_line(points)
    slope, intercept = np.polyfit([p[0] for p in points], [p[1] for p in points], 1)
    if slope > 1e-9:
        assert line.b_ms_per_slot == pytest.approx(slope, rel=1e-5, abs=1e-9)
        assert line.a_ms == pytest.approx(intercept, rel=1e-5, abs=1e-5)
    elif slope < -1e-9:
        assert line.b_ms_per_slot == 0.0
        assert line.a_ms == pytest.approx(np.mean([p[1] for p in points]))


def test_one_bad_warm_up_chunk_does_not_bend_the_line():
    clean = [(slots, 5.0 + slots / 1000) for slots in FILLS for _ in range(3)]
    spoiled = [*clean[:-1], (FILLS[-1], 900.0)]
    assert fit_line(spoiled) == fit_line(clean)


def test_cost_follows_the_fill_and_its_reset():
    """Fault A17: neither refused for ever on an empty cache nor over-admitted on a full one."""
    model = calibrated()
    for slots in (32, 1000, 4064):
        assert model.chunk_ms(slots) == pytest.approx(whole(slots).total_ms, rel=1e-9)
    for slots in range(32, 4064, 64):
        model.learn_whole(whole(slots), 0.0)
    assert model.chunk_ms(32) == pytest.approx(whole(32).total_ms, rel=1e-9)


def test_level_ignores_one_outlier_and_follows_a_change_after_three_chunks():
    model = calibrated()
    before = model.chunk_ms(4064)
    model.learn_whole(whole(4064, 50.0), 0.0)
    assert model.chunk_ms(4064) == before
    for _ in range(5):
        model.learn_whole(whole(4064), 0.0)
    for _ in range(3):
        model.learn_whole(whole(4064, 1.5), 0.0)
    assert model.chunk_ms(4064) == pytest.approx(1.5 * before)


def test_stage_that_slows_down_alone_is_charged_once():
    """Fault A15: 10 ms more of vision are 10 ms more of a chunk, not a slower decode."""
    model = calibrated()
    slow = ChunkTimes(4064, 10.2, whole(4064).prefill_ms, whole(4064).decode_ms, completed=True)
    for _ in range(3):
        model.learn_whole(slow, 0.0)
    assert model.chunk_ms(4064) == pytest.approx(whole(4064).total_ms + 10.0)
    assert model.forecast(4064).rest_ms(ChunkTimes(4064, 10.2)) == pytest.approx(
        whole(4064).total_ms - whole(4064).vision_ms
    )


def test_overhead_between_stages_is_part_of_the_cost():
    """Fault A15."""
    model = calibrated()
    before = model.chunk_ms(4064)
    for _ in range(3):
        model.learn_whole(whole(4064), 4.0)
    assert model.chunk_ms(4064) == pytest.approx(before + 4.0)


def test_rest_counts_only_what_has_not_run():
    model, full = calibrated(), whole(2048)
    so_far = ChunkTimes(2048, full.vision_ms, full.prefill_ms, full.decode_ms[:5])
    assert model.forecast(so_far.slots_in_use).rest_ms(so_far) == pytest.approx(2 * full.decode_ms[0])
    assert model.forecast(2048).rest_ms(ChunkTimes(2048, full.vision_ms)) == pytest.approx(
        full.total_ms - full.vision_ms
    )


def test_aborted_chunk_raises_the_level_and_never_lowers_it():
    """RFC 6298 (Karn): a measurement that was aborted is a lower bound only."""
    model = calibrated()
    before = model.chunk_ms(4064)
    fast = whole(4064, 0.5)
    for _ in range(10):
        model.learn_aborted(ChunkTimes(4064, fast.vision_ms, fast.prefill_ms, fast.decode_ms[:2]))
    assert model.chunk_ms(4064) == before
    slow = whole(4064, 1.5)
    for _ in range(3):
        model.learn_aborted(ChunkTimes(4064, slow.vision_ms, slow.prefill_ms))
    assert model.chunk_ms(4064) == pytest.approx(1.5 * before)  # decode extrapolated from the prefill


def test_tiny_stage_does_not_extrapolate():
    model = calibrated()
    assert (
        model.forecast(4064).slow_down(ChunkTimes(4064, 2.0)) == 1.0
    )  # vision took ten times as long, 0.8 % of the chunk
    assert model.forecast(4064).slow_down(ChunkTimes(4064, 0.2, 12.0)) == pytest.approx(
        12.0 / whole(4064).prefill_ms
    )


def test_stall_in_one_stage_is_over_once_the_next_runs_at_its_usual_speed():
    forecast, step_ms = calibrated().forecast(4064), whole(4064).decode_ms[0]
    assert forecast.slow_down(ChunkTimes(4064, 0.2, 18.0)) > 3
    assert forecast.slow_down(ChunkTimes(4064, 0.2, 18.0, (step_ms,))) == pytest.approx(1.0)


def test_spread_is_clamped_and_blind_to_one_outlier():
    """Fault A16: plan with a quantile where chunks are not re-checked."""
    model = calibrated()
    flat = model.chunk_ms(4064, 0.9)
    model.learn_whole(whole(4064, 40.0), 0.0)
    assert model.chunk_ms(4064, 0.9) == pytest.approx(flat)
    rng = random.Random(1)
    for _ in range(64):
        model.learn_whole(whole(4064, rng.choice([1.0, 1.0, 1.0, 9.0])), 0.0)
    limit = model.chunk_ms(4064) + MAX_SPREAD * whole(4064).total_ms
    assert model.chunk_ms(4064, 0.9) == pytest.approx(limit)


def test_first_whole_chunk_stands_in_for_a_calibration():
    model = CostModel()
    assert not model.is_ready
    model.learn_whole(whole(32), 0.0)
    assert model.is_ready
    assert model.chunk_ms(32) == pytest.approx(whole(32).total_ms)


def test_calibration_without_a_usable_chunk_leaves_the_model_empty():
    model = CostModel()
    model.calibrate([ChunkTimes(32, 0.1, float("nan"), (1.0,), completed=True), ChunkTimes(32, 0.1, 1.0)])
    assert not model.is_ready


def test_steps_to_plan_for_are_a_quantile_of_the_recent_chunks():
    model, full = CostModel(), whole(2048)
    model.calibrate([full])
    for steps in (7, 0, 0, 1, 0, 3, 0, 2, 0):
        model.learn_whole(
            ChunkTimes(2048, full.vision_ms, full.prefill_ms, full.decode_ms[:steps], True), 0.0
        )
    assert [model.steps(quantile) for quantile in (0.0, 0.5, 0.75, 1.0)] == [0, 1, 3, 7]
    one_step = full.vision_ms + full.prefill_ms + full.decode_ms[0]
    assert model.chunk_ms(2048) == pytest.approx(one_step, rel=1e-6)


def test_a_chunk_that_needs_more_steps_than_planned_is_asked_about_each():
    """Drafts held in all recent chunks; in this one they do not."""
    model, full = CostModel(), whole(2048)
    model.calibrate([full])
    for _ in range(64):
        model.learn_whole(ChunkTimes(2048, full.vision_ms, full.prefill_ms, (), True), 0.0)
    forecast = model.forecast(2048)
    assert forecast.steps == 0
    for done in range(7):
        so_far = ChunkTimes(2048, full.vision_ms, full.prefill_ms, full.decode_ms[:done])
        assert forecast.rest_ms(so_far) == forecast.next_ms(so_far) == pytest.approx(full.decode_ms[0])


def test_engine_that_reports_no_vision_time_is_modelled():
    model = CostModel()
    model.calibrate([ChunkTimes(32, 0.0, 5.0, (2.0,) * 7, completed=True)])
    model.learn_whole(ChunkTimes(32, 0.0, 5.0, (2.0,) * 7, completed=True), 0.0)
    assert model.chunk_ms(32) == pytest.approx(19.0)
