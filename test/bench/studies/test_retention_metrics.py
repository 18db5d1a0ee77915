# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from vla_edge_ros.bench.studies import retention_metrics as metrics

SECOND = 10**9


def test_colour_distance_is_the_rms_difference_of_the_block_means():
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (3, 64, 128, 3), dtype=np.uint8)
    blocks = [p.astype(float).reshape(16, 4, 32, 4, 3).mean((1, 3)) for p in pixels]
    between = metrics.distances(metrics.colour_features(pixels))
    for i in range(3):
        for j in range(3):
            expected = np.sqrt(np.mean((blocks[i] - blocks[j]) ** 2))
            assert between[i, j] == pytest.approx(expected, abs=1e-3)


def test_a_brighter_picture_is_as_far_in_colour_as_it_is_brighter_and_not_far_in_shape():
    rng = np.random.default_rng(1)
    dark = rng.integers(0, 128, (64, 128, 3), dtype=np.uint8)
    pixels = np.stack([dark, dark + np.uint8(50)])
    assert metrics.distances(metrics.colour_features(pixels))[0, 1] == pytest.approx(50.0, abs=1e-3)
    # Not exactly 0: rounding moves a gradient that lies between two bins.
    assert metrics.distances(metrics.gradient_features(pixels))[0, 1] < 0.02


def test_gradient_histogram_tells_vertical_from_horizontal_stripes_and_where_they_are():
    stripes = np.zeros((64, 128, 3), np.uint8)
    stripes[:, ::4] = 200
    flat = np.zeros((64, 128, 3), np.uint8)
    flat[::4] = 200
    left, right = stripes.copy(), stripes.copy()
    left[:, 64:], right[:, :64] = 0, 0
    between = metrics.distances(metrics.gradient_features(np.stack([stripes, flat, left, right])))
    orthogonal = np.sqrt(2.0)
    assert between[0, 1] == pytest.approx(orthogonal, abs=0.05)
    assert between[2, 3] > 1.3
    assert between[0, 2] < 0.9


def test_picture_without_edges_has_a_finite_histogram():
    features = metrics.gradient_features(np.full((1, 64, 128, 3), 9, np.uint8))
    assert not features.any()


def test_coverage_by_hand():
    place = np.array([0.0, 1.0, 2.0, 3.0, 10.0])
    between = np.abs(place[:, None] - place)
    all_seen = metrics.coverage(between, np.array([0, 3]), 5)  # nearest: 0 1 1 0 7
    assert (all_seen.mean, all_seen.p95, all_seen.max) == (1.8, 7.0, 7.0)
    assert metrics.coverage(between, np.array([0, 3]), 4).max == 1.0


def test_largest_hole_counts_both_ends():
    times_ns = np.arange(11) * SECOND
    assert metrics.largest_hole(times_ns, np.array([0, 10])) == 1.0
    assert metrics.largest_hole(times_ns, np.array([3, 5])) == 0.5
    assert metrics.largest_hole(times_ns, np.array([7])) == 0.7
    assert metrics.largest_hole(times_ns, np.arange(11)) == pytest.approx(0.1)


def test_recent_time_bins_and_scene_recall_by_hand():
    kept = np.array([0, 1, 50, 93, 99])
    assert metrics.recent_kept(kept, 100) == 2
    assert metrics.time_bins_filled(np.arange(100) * SECOND, kept) == 4 / 20
    scenes = np.repeat(np.arange(10), 10)
    assert metrics.scene_recall(scenes, kept) == 0.3
