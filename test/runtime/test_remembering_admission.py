# SPDX-License-Identifier: Apache-2.0
"""What a refused frame may cost, by both policies: its own budget, its own measurements, no say in chunks."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vla_edge_ros.config import AdmissionConfig, TimingConfig
from vla_edge_ros.runtime.admission import Admission, make_admission
from vla_edge_ros.types import ChunkTimes, Reason

SLOTS = 4064
TIMING = TimingConfig()  # deadline 33, margin 2: budget 31; a running chunk must end by 31.5
POLICIES = ("ema", "robust")
VISION_MS, PREFILL_MS = 1.0, 5.0


def chunk(prefill_ms: float = PREFILL_MS, step_ms: float = 5.0, ran: int = 7, steps: int = 7) -> ChunkTimes:
    """41 ms as a whole, which never fits; ``ran`` of its ``steps``."""
    return ChunkTimes(SLOTS, VISION_MS, prefill_ms, (step_ms,) * ran, completed=ran == steps)


def informed(policy: str, **sample: float) -> Admission:
    """Knows what a chunk costs."""
    admission = make_admission(TIMING, AdmissionConfig(policy=policy))
    admission.calibrate([chunk(**sample) for _ in range(6)])
    admission.decide(0.0, SLOTS)
    admission.learn(chunk(**sample))
    return admission


def refusing(policy: str) -> Admission:
    """And has refused one."""
    admission = informed(policy)
    assert admission.decide(0.3, SLOTS).reason is Reason.OVER_BUDGET
    return admission


def frame(prefill_ms: float = PREFILL_MS) -> ChunkTimes:
    return ChunkTimes(SLOTS, VISION_MS, prefill_ms)


@pytest.mark.parametrize(("policy", "latest_ms"), [("ema", 31.0 - 6.0), ("robust", 0.99 * 31.0 - 6.0)])
def test_a_frame_is_remembered_while_embedding_and_prefill_end_within_the_budget(policy, latest_ms):
    admission = refusing(policy)
    assert admission.may_remember(latest_ms - 0.01, SLOTS)
    assert not admission.may_remember(latest_ms + 0.01, SLOTS)
    assert not admission.may_remember(math.nan, SLOTS)


@pytest.mark.parametrize("policy", POLICIES)
def test_between_the_two_only_the_prefill_counts(policy):
    admission = refusing(policy)
    assert admission.may_remember(20.0, SLOTS)
    embedded = ChunkTimes(SLOTS, VISION_MS)
    assert not admission.must_abort(20.0, ChunkTimes(SLOTS))
    assert not admission.must_abort(31.5 - PREFILL_MS - 0.01, embedded)
    assert admission.must_abort(31.5 - PREFILL_MS + 0.01, embedded)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_next_chunk_is_watched_as_a_whole_again(policy):
    """The steps behind its prefill count, also where the chunk before was only remembered."""
    admission = informed(policy, step_ms=3.0)  # 27 ms
    assert admission.may_remember(5.0, SLOTS)
    admission.learn_remembered(frame())
    assert admission.decide(0.3, SLOTS).reason is Reason.WITHIN_BUDGET
    assert not admission.must_abort(1.3, ChunkTimes(SLOTS, VISION_MS))
    assert admission.must_abort(9.0, ChunkTimes(SLOTS, VISION_MS))


@pytest.mark.parametrize("policy", POLICIES)
@given(
    prefills=st.lists(st.floats(0.5, 60.0), min_size=1, max_size=40),
    elapsed=st.lists(st.floats(0.0, 33.0), min_size=40, max_size=40),
)
@settings(max_examples=60, deadline=None)
def test_where_the_prefill_is_the_whole_chunk_what_is_refused_is_not_remembered(policy, prefills, elapsed):
    """Parallel decoding: there is nothing to save, and no second door for what does not fit."""
    admission = make_admission(TIMING, AdmissionConfig(policy=policy))
    admission.calibrate([chunk(prefills[0], ran=0, steps=0)] * 6)
    for prefill_ms, elapsed_ms in zip(prefills, elapsed, strict=False):
        decision = admission.decide(elapsed_ms, SLOTS)
        if not decision.admitted:
            assert not admission.may_remember(elapsed_ms, SLOTS)
        elif elapsed_ms + VISION_MS + prefill_ms <= 31.5:
            admission.learn(chunk(prefill_ms, ran=0, steps=0))
        else:
            admission.learn(ChunkTimes(SLOTS, VISION_MS))


@pytest.mark.parametrize("policy", POLICIES)
def test_probes_come_as_they_would_without(policy):
    """What is remembered is no chunk: it ends no probe, and does not put the next one off."""
    plain, remembering = refusing(policy), refusing(policy)
    reasons: dict[int, list[Reason]] = {id(plain): [], id(remembering): []}
    for _ in range(60):
        for admission in (plain, remembering):
            decision = admission.decide(0.3, SLOTS)
            reasons[id(admission)].append(decision.reason)
            if decision.admitted:
                admission.learn(chunk(ran=3))
            elif admission is remembering:
                assert admission.may_remember(0.3, SLOTS)
                admission.learn_remembered(frame())
    assert reasons[id(plain)] == reasons[id(remembering)]
    assert Reason.PROBE in reasons[id(plain)]


@pytest.mark.parametrize("policy", POLICIES)
def test_it_teaches_embedding_and_prefill_and_nothing_of_decode_steps(policy):
    admission = refusing(policy)
    for _ in range(60):
        admission.may_remember(0.3, SLOTS)
        admission.learn_remembered(ChunkTimes(SLOTS, 0.5 * VISION_MS, 0.5 * PREFILL_MS))
    assert admission.decide(0.3, SLOTS).predicted_ms == pytest.approx(3.0 + 7 * 5.0, abs=0.01)
    assert admission.may_remember(27.5, SLOTS) and not admission.may_remember(28.1, SLOTS)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_prefill_that_became_too_slow_is_given_up_and_one_that_recovered_is_taken_up(policy):
    """No lock: no chunk ever ends, so aborted ones must be able to lower what a frame is thought to cost."""
    admission = refusing(policy)
    tried = 0
    for _ in range(30):
        admission.decide(0.3, SLOTS)
        if admission.may_remember(0.3, SLOTS):
            tried += 1
            admission.learn_remembered(frame(60.0))
    assert tried <= (3 if policy == "robust" else 5)
    probes = 0
    while not admission.may_remember(0.3, SLOTS):
        if admission.decide(0.3, SLOTS).admitted:
            admission.learn(chunk(ran=3))
            probes += 1
        assert probes < 10


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("bad_ms", [math.nan, math.inf, -1.0, 1e12])
def test_a_bad_measurement_is_counted_and_changes_nothing(policy, bad_ms):
    """Fault A18."""
    admission = refusing(policy)
    before = admission.decide(0.3, SLOTS).predicted_ms
    for _ in range(9):
        admission.learn_remembered(frame(bad_ms))
    assert admission.rejected_samples == 9
    assert admission.decide(0.3, SLOTS).predicted_ms == before
    assert admission.may_remember(20.0, SLOTS)


@pytest.mark.parametrize("policy", POLICIES)
def test_an_embedding_alone_teaches_nothing_of_the_prefill(policy):
    admission = refusing(policy)
    for _ in range(9):
        admission.learn_remembered(ChunkTimes(SLOTS, VISION_MS))
    assert admission.rejected_samples == 0
    assert admission.may_remember(24.0, SLOTS) and not admission.may_remember(25.1, SLOTS)


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_is_remembered_before_a_first_chunk(policy):
    assert not make_admission(TIMING, AdmissionConfig(policy=policy)).may_remember(0.0, SLOTS)


def test_chunks_with_a_draft_tell_how_fast_the_machine_is_at_a_plain_prefill():
    """Only drafted chunks run, and the machine slows down to a third: the profile of plain ones is stale."""
    admission = make_admission(TIMING, AdmissionConfig())
    drafted = [ChunkTimes(SLOTS, 1.0, 6.0, (3.0,) * 7, completed=True, drafted=True)] * 6
    admission.calibrate([*(chunk() for _ in range(6)), *drafted])
    assert admission.may_remember(20.0, SLOTS)
    for _ in range(3):
        admission.decide(0.3, SLOTS, drafted=True)
        admission.learn(ChunkTimes(SLOTS, 3.0, 18.0, (), drafted=True))
    assert not admission.may_remember(20.0, SLOTS)
    assert admission.may_remember(12.0, SLOTS)  # 18 ms


def test_a_higher_quantile_plans_for_the_spread_here_too():
    bold, careful = (
        make_admission(TIMING, AdmissionConfig(cost_quantile=quantile)) for quantile in (0.5, 0.9)
    )
    for admission in (bold, careful):
        admission.calibrate([chunk()] * 6)
        for cycle in range(64):
            admission.decide(0.3, SLOTS)
            admission.learn(chunk(step_ms=6.5 if cycle % 4 == 0 else 5.0))
    assert bold.may_remember(24.6, SLOTS) and not careful.may_remember(24.6, SLOTS)
