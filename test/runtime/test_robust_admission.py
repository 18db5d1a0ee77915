# SPDX-License-Identifier: Apache-2.0
"""The rules that only the robust policy keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vla_edge_ros.config import AdmissionConfig, TimingConfig
from vla_edge_ros.runtime.robust_admission import RobustAdmission
from vla_edge_ros.types import ChunkTimes, Reason

FULL = 4064


def chunk(factor: float = 1.0, slots: int = FULL, vision_ms: float = 0.2) -> ChunkTimes:
    """24 ms at full cache, 12 ms at an empty one."""
    fill = 0.5 + 0.5 * slots / FULL
    return ChunkTimes(slots, vision_ms, 4.8 * fill * factor, (19.0 / 7 * fill * factor,) * 7, completed=True)


def calibrated(**config: object) -> RobustAdmission:
    admission = RobustAdmission(TimingConfig(), AdmissionConfig(**config))
    admission.calibrate([chunk(slots=slots) for slots in (0, FULL // 2, FULL) for _ in range(4)])
    return admission


@given(
    outlier=st.floats(1e-6, 1e9),
    at=st.integers(0, 30),
    factor=st.floats(0.2, 1.0),
    quantile=st.sampled_from([0.5, 0.9]),
)
@settings(max_examples=40, deadline=None)
def test_one_outlier_never_changes_a_decision(outlier, at, factor, quantile):
    clean, hit = calibrated(cost_quantile=quantile), calibrated(cost_quantile=quantile)
    for cycle in range(35):
        decision = clean.decide(0.3, FULL)
        assert hit.decide(0.3, FULL).admitted == decision.admitted
        clean.learn(chunk(factor))
        hit.learn(chunk(outlier if cycle == at else factor))


def test_real_change_is_followed_after_three_chunks():
    admission = calibrated()
    reasons = []
    for _ in range(5):
        decision = admission.decide(0.3, FULL)
        reasons.append(decision.reason)
        if decision.admitted:
            admission.learn(chunk(1.5))
    assert reasons == [Reason.WITHIN_BUDGET] * 3 + [Reason.OVER_BUDGET] * 2


def test_full_cache_does_not_refuse_an_empty_one():
    """Fault A17."""
    admission = calibrated()
    for _ in range(5):
        admission.decide(0.3, FULL)
        admission.learn(chunk(1.4))
    assert not admission.decide(0.3, FULL).admitted
    assert admission.decide(0.3, 0).reason is Reason.WITHIN_BUDGET


def test_empty_cache_does_not_over_admit_a_full_one():
    """Fault A17."""
    admission = calibrated()
    for _ in range(5):
        admission.decide(0.3, 0)
        admission.learn(chunk(1.4, slots=0))
    assert admission.decide(0.3, 0).admitted
    assert not admission.decide(0.3, FULL).admitted


def test_slow_vision_leads_to_refusals_not_to_misses():
    """Fault A15: 10 ms more of vision, 34 ms in all."""
    admission, whole = calibrated(), chunk(vision_ms=10.2)
    reasons = []
    for _ in range(30):
        decision = admission.decide(0.3, FULL)
        reasons.append(decision.reason)
        if not decision.admitted:
            continue
        ran = 0
        while not admission.must_abort(
            0.3 + sum(whole.decode_ms[:ran]) + 15.0,
            so_far := ChunkTimes(FULL, 10.2, 4.8, whole.decode_ms[:ran]),
        ):
            ran += 1
            assert ran < 7, "the last step would have ended at 34.3 ms"
        admission.learn(so_far)
    assert reasons.count(Reason.OVER_BUDGET) > 20


def test_slow_vision_that_still_fits_is_not_aborted():
    admission = calibrated()
    for _ in range(20):
        assert admission.decide(0.3, FULL).admitted
        assert not admission.must_abort(5.5, ChunkTimes(FULL, 5.2))
        assert not admission.must_abort(10.3, ChunkTimes(FULL, 5.2, 4.8))
        admission.learn(chunk(vision_ms=5.2))


def test_time_between_the_stages_is_learned():
    """Fault A15: 8 ms that no stage accounts for."""
    admission = calibrated()
    for _ in range(3):
        admission.decide(0.3, FULL)
        so_far = chunk()
        admission.must_abort(0.3 + so_far.total_ms + 8.0, so_far)
        admission.learn(so_far)
    decision = admission.decide(0.3, FULL)
    assert decision.reason is Reason.OVER_BUDGET
    assert decision.predicted_ms == pytest.approx(32.0)  # from 3.12 on sum() rounds once


def test_chunk_is_aborted_before_a_step_that_would_end_too_late():
    admission = calibrated()
    assert admission.decide(0.3, FULL).admitted
    step_ms = chunk().decode_ms[0]
    after_six = ChunkTimes(FULL, 0.2, 4.8, (step_ms,) * 6)
    limit_ms = 33.0 - 1.0 - 0.5
    assert not admission.must_abort(limit_ms - step_ms - 0.01, after_six)
    assert admission.must_abort(limit_ms - step_ms + 0.01, after_six)


def test_slow_down_of_this_chunk_scales_what_is_left():
    admission = calibrated()
    assert admission.decide(0.3, FULL).admitted
    assert not admission.must_abort(5.3, ChunkTimes(FULL, 0.2, 4.8))
    assert admission.must_abort(7.7, ChunkTimes(FULL, 0.3, 7.2))  # half as long again: 28.5 ms to come


def test_early_check_is_lenient_by_a_few_percent_and_the_last_one_is_not():
    """What is aborted early on one stage's pace may still fit; before the last step nothing is given away."""
    admission, step_ms = calibrated(), chunk().decode_ms[0]
    assert admission.decide(0.3, FULL).admitted
    limit_ms, rest_ms = 31.5, 7 * step_ms
    after_prefill = ChunkTimes(FULL, 0.2, 4.8)
    assert not admission.must_abort(limit_ms - rest_ms + 0.02 * rest_ms, after_prefill)
    assert admission.must_abort(limit_ms - rest_ms + 0.03 * rest_ms, after_prefill)


def test_does_not_flap_when_the_elapsed_time_jitters_about_the_threshold():
    """Fault A26."""
    admission = calibrated()
    edge_ms = 31.0 - 24.0
    admitted = [admission.decide(edge_ms + jitter, FULL).admitted for jitter in (-0.1, 0.1, -0.1, 0.1, -0.1)]
    assert admitted == [True, False, False, False, False]
    assert admission.decide(edge_ms - 0.4, FULL).reason is Reason.WITHIN_BUDGET


def test_higher_quantile_refuses_what_the_median_admits():
    """Fault A16: chunks of 24 and 33 ms in turn."""
    bold, careful = calibrated(), calibrated(cost_quantile=0.9)
    for cycle in range(64):
        for admission in (bold, careful):
            admission.decide(0.3, FULL)
            admission.learn(chunk(1.38 if cycle % 4 == 0 else 1.0))
    assert bold.decide(0.3, FULL).admitted
    assert not careful.decide(0.3, FULL).admitted


def test_every_decision_explains_itself():
    admission = calibrated()
    for _ in range(3):
        admission.decide(0.3, FULL)
        admission.learn(chunk(1.5))
    decisions = [admission.decide(0.3, FULL) for _ in range(5)]
    assert [d.reason for d in decisions] == [Reason.OVER_BUDGET] * 4 + [Reason.PROBE]
    for decision in decisions:
        assert decision.elapsed_ms + decision.predicted_ms > decision.budget_ms == 31.0


def drafted(steps: int, factor: float = 1.0) -> ChunkTimes:
    """6 ms and 3 ms a step: 27 ms where no guess is right."""
    return ChunkTimes(FULL, 0.2, 5.8 * factor, (3.0 * factor,) * steps, completed=True, drafted=True)


def test_chunks_with_a_draft_are_predicted_by_their_own_distribution():
    admission = calibrated()
    admission.calibrate([*(chunk() for _ in range(8)), *(drafted(7) for _ in range(8))])
    assert abs(admission.decide(0.0, FULL, drafted=True).predicted_ms - 27.0) < 0.1
    for _ in range(40):
        admission.decide(0.0, FULL, drafted=True)
        admission.learn(drafted(0))
    assert abs(admission.decide(0.0, FULL, drafted=True).predicted_ms - 6.0) < 0.1
    assert abs(admission.decide(0.0, FULL).predicted_ms - 24.0) < 0.1, "plain chunks cost what they did"


@pytest.mark.parametrize("calibrated_with", [7, 0], ids=["steps seen in warm-up", "no step ever seen"])
def test_a_draft_that_fails_is_aborted_before_the_step_that_would_end_too_late(calibrated_with):
    """The median has no step; this chunk needs all seven, on a machine that has slowed down by a half."""
    admission = calibrated()
    admission.calibrate([*(chunk() for _ in range(8)), *(drafted(calibrated_with) for _ in range(8))])
    for _ in range(64):
        admission.decide(0.0, FULL, drafted=True)
        admission.learn(drafted(0))
    assert admission.decide(0.0, FULL, drafted=True).predicted_ms < 6.1
    elapsed_ms, steps = 9.0, 0
    while not admission.must_abort(elapsed_ms, ChunkTimes(FULL, 0.2, 8.7, (4.5,) * steps, drafted=True)):
        elapsed_ms, steps = elapsed_ms + 4.5, steps + 1
        assert elapsed_ms <= 31.5, "this step was late"
    assert steps >= 4


def test_an_engine_that_was_not_calibrated_with_drafts_has_plain_chunks_only():
    admission = calibrated()
    first = admission.decide(0.0, FULL, drafted=True)
    assert first.reason is Reason.WITHIN_BUDGET and abs(first.predicted_ms - 24.0) < 0.1
    assert admission.decide(8.0, FULL, drafted=True).reason is Reason.OVER_BUDGET
    for _ in range(5):
        admission.decide(0.0, FULL, drafted=True)
        admission.learn(replace(chunk(factor=1.1), drafted=True))
    assert abs(admission.decide(0.0, FULL).predicted_ms - 26.4) < 0.1
    assert abs(admission.decide(0.0, 0, drafted=True).predicted_ms - 13.2) < 0.2, "and grow with the cache"
