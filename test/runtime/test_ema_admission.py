# SPDX-License-Identifier: Apache-2.0
"""The averages of the plain rule against averages computed here."""

from __future__ import annotations

import pytest

from vla_edge_ros.config import AdmissionConfig, TimingConfig
from vla_edge_ros.runtime.ema_admission import EmaAdmission
from vla_edge_ros.types import ChunkTimes, Reason


def make(weight: float = 0.2) -> EmaAdmission:
    return EmaAdmission(TimingConfig(), AdmissionConfig(policy="ema", ema_weight=weight))


def test_prefill_and_decode_are_averaged_apart():
    admission = make()
    prefills, steps = [5.0, 6.0, 4.0, 9.0], [2.0, 2.5, 1.0, 2.2]
    prefill, step = prefills[0], steps[0]
    for i, (p, s) in enumerate(zip(prefills, steps, strict=True)):
        admission.decide(0.0, 0)
        admission.learn(ChunkTimes(0, 0.0, p, (s,) * 7, completed=True))
        if i:
            prefill, step = 0.8 * prefill + 0.2 * p, 0.8 * step + 0.2 * s
    assert admission.decide(0.0, 0).predicted_ms == pytest.approx(prefill + 7 * step)


def test_vision_is_charged_with_the_prefill():
    admission = make()
    admission.learn(ChunkTimes(0, 3.0, 5.0, (2.0,) * 7, completed=True))
    assert admission.decide(0.0, 0).predicted_ms == pytest.approx(3.0 + 5.0 + 14.0)


def test_warm_up_times_are_not_learned():
    """Fault A13: the first chunk is admitted and sets the averages, as if there had been no warm-up."""
    admission = make()
    admission.calibrate([ChunkTimes(0, 0.0, 900.0, (90.0,) * 7, completed=True)])
    assert admission.decide(0.0, 0).reason is Reason.FIRST_CHUNK
    admission.learn(ChunkTimes(0, 0.0, 5.0, (2.0,) * 7, completed=True))
    assert admission.decide(0.0, 0).predicted_ms == pytest.approx(19.0)


def test_aborted_chunk_teaches_only_the_stages_that_ran():
    admission = make(weight=0.5)
    admission.learn(ChunkTimes(0, 0.0, 5.0, (2.0,) * 7, completed=True))
    admission.decide(0.0, 0)
    admission.learn(ChunkTimes(0, 0.0, 7.0, (4.0,)))
    assert admission.decide(0.0, 0).predicted_ms == pytest.approx(6.0 + 7 * 3.0)
    admission.learn(ChunkTimes(0, 50.0))  # aborted before its prefill: nothing whole to learn
    assert admission.decide(0.0, 0).predicted_ms == pytest.approx(27.0)


def test_whole_probe_that_fits_replaces_the_averages():
    admission = make()
    admission.learn(ChunkTimes(0, 0.0, 500.0, (100.0,) * 7, completed=True))
    reasons = [admission.decide(0.0, 0).reason for _ in range(5)]
    assert reasons == [Reason.OVER_BUDGET] * 4 + [Reason.PROBE]
    admission.learn(ChunkTimes(0, 0.0, 5.0, (2.0,) * 7, completed=True))
    decision = admission.decide(0.0, 0)
    assert (decision.reason, decision.predicted_ms) == (Reason.WITHIN_BUDGET, pytest.approx(19.0))


def test_chunk_is_aborted_when_its_steps_run_slower_than_their_average():
    admission = make()
    admission.learn(ChunkTimes(0, 0.0, 5.0, (2.0,) * 7, completed=True))
    assert admission.decide(0.0, 0).admitted
    assert not admission.must_abort(5.0, ChunkTimes(0, 0.0, 5.0))
    assert admission.must_abort(15.0, ChunkTimes(0, 0.0, 15.0))  # three times slower: 42 ms to come
