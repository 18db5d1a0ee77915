# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from vla_edge_ros.kv_cache.descriptor import THUMBNAIL_SIZE, describe, descriptor_size, thumbnail

SCENE = np.random.default_rng(0).integers(0, 256, (8, 16, 3)).repeat(8, 0).repeat(8, 1).astype(np.uint8)


def test_thumbnail_is_the_zero_mean_block_average_of_bt601_grey():
    picture = np.random.default_rng(1).integers(0, 256, (64, 128, 3), dtype=np.uint8)
    grey = picture @ np.array([0.299, 0.587, 0.114])
    blocks = grey.reshape(8, 8, 16, 8).mean((1, 3))
    blocks -= blocks.mean()
    expected = (blocks / np.linalg.norm(blocks)).ravel()
    result = thumbnail(picture)
    assert result.dtype == np.float32
    assert np.linalg.norm(result) == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_allclose(result, expected, atol=5e-3)  # weights are rounded to 1/256


@pytest.mark.parametrize("value", [0, 77, 127, 255])
@pytest.mark.parametrize("shape", [(64, 128), (61, 103), (3, 5)])
def test_constant_picture_is_blank(value, shape):
    assert not thumbnail(np.full((*shape, 3), value, np.uint8)).any()


def test_a36_grey_wall_with_sensor_noise_is_blank_not_a_new_scene_each_frame():
    noise = np.random.default_rng(2).normal(127.5, 1.0, (64, 128, 3))
    assert not thumbnail(np.rint(noise).astype(np.uint8)).any()


@pytest.mark.parametrize("gain", [0.5, 0.85, 1.0])
@pytest.mark.parametrize("offset", [0, 30])
def test_a36_exposure_changes_nothing(gain, offset):
    changed = np.rint(SCENE * (gain * 0.8) + offset).astype(np.uint8)
    assert thumbnail(changed) @ thumbnail(SCENE) > 0.9999


def test_a36_layout_matters():
    """A mean over patches cannot tell a picture from the same patches shuffled."""
    order = np.random.default_rng(3).permutation(32)
    patches = SCENE.reshape(4, 16, 8, 16, 3).swapaxes(1, 2).reshape(32, 16, 16, 3)
    shuffled = patches[order].reshape(4, 8, 16, 16, 3).swapaxes(1, 2).reshape(64, 128, 3)
    assert thumbnail(shuffled) @ thumbnail(SCENE) < 0.5


@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (67, 101), (480, 640), (2160, 3840)])
def test_any_size_gives_a_thumbnail_of_the_same_size(shape):
    rng = np.random.default_rng(4)
    result = thumbnail(rng.integers(0, 256, (*shape, 3), dtype=np.uint8))
    assert result.shape == (THUMBNAIL_SIZE,)
    assert np.isfinite(result).all()


def test_size_of_the_picture_does_not_change_the_thumbnail():
    big = SCENE.repeat(5, 0).repeat(5, 1)
    np.testing.assert_array_equal(thumbnail(big), thumbnail(SCENE))


def test_view_of_a_larger_picture_is_read_as_it_is():
    padded = np.zeros((64, 140, 3), np.uint8)
    padded[:, :128] = SCENE
    np.testing.assert_array_equal(thumbnail(padded[:, :128]), thumbnail(SCENE))


def test_describe_gives_each_policy_what_it_asks_for():
    embedding = np.ones(1536, np.float32)
    assert describe("none", SCENE, embedding) is None
    assert describe("embedding", SCENE, embedding) is embedding
    np.testing.assert_array_equal(describe("thumbnail", SCENE, embedding), thumbnail(SCENE))
    assert [descriptor_size(kind, 1536) for kind in ("none", "embedding", "thumbnail")] == [0, 1536, 128]
