# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from vla_edge_ros.bench.studies import retention_replay, retention_trials
from vla_edge_ros.bench.studies.footage import Footage


@pytest.fixture
def stream() -> retention_replay.Prepared:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (70, 64, 128, 3), dtype=np.uint8)
    return retention_replay.prepare(
        Footage("made", pixels, np.arange(70) * 33_000_000, np.zeros(70, np.int64))
    )


def test_every_trial_is_scored_against_time_thinning(stream):
    rows = retention_trials.compare([stream], "half")
    assert [row["trial"] for row in rows] == list(retention_trials.TRIALS)
    assert rows[0]["overall"] == pytest.approx(1.0)
    assert all(np.isfinite(row["overall"]) for row in rows)


def test_every_rule_keeps_the_latest_frames_and_the_first(stream):
    times = stream.footage.stamps_ns.astype(float)
    similarity = retention_trials.cosines(stream.descriptors["thumbnail"])
    for _, rule in retention_trials.TRIALS.values():
        kept = retention_trials.keep(rule, similarity, times, 32)[70]
        assert len(np.unique(kept)) == 32
        assert kept[0] == 0
        assert kept[-8:].tolist() == list(range(62, 70))


def test_revisit_forgets_a_picture_that_an_old_frame_shows_too():
    """Frame 3 equals frame 0, with others between: bridge has no reason to drop it, revisit has."""
    similarity = retention_trials.cosines(np.eye(6)[[0, 1, 2, 0, 3, 4]])
    times, kept = np.arange(6.0), np.arange(6)
    assert np.argmin(retention_trials.revisit(0.01, 1.0)(kept, similarity, times)) == 2
    assert np.ptp(retention_trials.bridge(0.01, 1.0)(kept, similarity, times)) == 0.0


def test_patch_descriptor_keeps_layout_and_ignores_exposure():
    rng = np.random.default_rng(1)
    scene = rng.integers(0, 100, (64, 128, 3), dtype=np.uint8)
    pixels = np.stack([scene, scene + np.uint8(80), scene[:, ::-1]])
    alike = retention_trials.cosines(retention_trials.grid_descriptor(pixels, (4, 8)))
    assert alike[0, 1] == pytest.approx(1.0, abs=1e-5)
    assert alike[0, 2] < 0.5
