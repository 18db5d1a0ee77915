# SPDX-License-Identifier: Apache-2.0
"""The patch projection: its values, its scale on real footage, and the checkpoint's own one."""

import os
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import save_file

from vla_edge_ros.config import FrameConfig
from vla_edge_ros.engines.numpy_ops import patch_embed
from vla_edge_ros.errors import WeightsError
from vla_edge_ros.model.bfloat16 import round_to_bfloat16
from vla_edge_ros.model.checkpoint import CheckpointWeights
from vla_edge_ros.model.decoder_config import PRESETS, TINY
from vla_edge_ros.model.patch_embedding import PATCH_PROJECTION, patch_projection, text_embedding_norm
from vla_edge_ros.model.random_weights import RandomWeights, normal, tensor_key
from vla_edge_ros.model.tensor_shapes import tensor_shapes

CLIPS = Path(os.environ.get("VLA_EDGE_DATA", Path(__file__).parents[3] / "shared" / "data")) / "clips"
FRAME = FrameConfig()


def checkpoint(folder, extra):
    weights = RandomWeights(TINY, seed=2)
    save_file(
        {**{name: weights.tensor(name) for name in tensor_shapes(TINY)}, **extra},
        folder / "model.safetensors",
    )
    return CheckpointWeights(folder, TINY)


def test_projection_is_the_named_stream_at_one_scale():
    projection = patch_projection(RandomWeights(TINY, seed=0), FRAME, seed=4)
    z = normal(tensor_key(4, "vla.patch_projection"), 0, projection.size).reshape(64, 768)
    scale = float((projection * z).sum() / (z * z).sum())
    assert np.array_equal(projection, round_to_bfloat16(projection))
    np.testing.assert_allclose(projection, scale * z, rtol=2**-8)


def test_reference_patches_become_tokens_as_long_as_text_embeddings():
    rng = np.random.default_rng(0)
    for preset in sorted(PRESETS):
        weights = RandomWeights(PRESETS[preset], seed=0)
        projection = patch_projection(weights, FRAME, seed=0)
        patches = rng.normal(size=(500, 768))
        patches *= 0.35 * np.sqrt(768) / np.linalg.norm(patches, axis=1, keepdims=True)
        norm = np.linalg.norm(patches @ projection.T.astype(np.float64), axis=1).mean()
        assert norm == pytest.approx(text_embedding_norm(weights), rel=0.03)


def test_scale_follows_the_checkpoint_s_own_embedding(tmp_path):
    weights = RandomWeights(TINY, seed=2)
    large = checkpoint(
        tmp_path, {"model.embed_tokens.weight": 5 * weights.tensor("model.embed_tokens.weight")}
    )
    ratio = patch_projection(large, FRAME, 0).std() / patch_projection(weights, FRAME, 0).std()
    assert ratio == pytest.approx(5, rel=0.01)


@pytest.mark.parametrize("size", [8, 32])
def test_other_patch_sizes_keep_the_token_norm(size):
    weights = RandomWeights(TINY, seed=0)
    frame = FrameConfig(patch_size=size)
    projection = patch_projection(weights, frame, seed=0)
    assert projection.shape == (64, size * size * 3)
    expected = 0.35 * np.sqrt(size * size * 3 * 64) * projection.std()
    assert expected == pytest.approx(text_embedding_norm(weights), rel=0.02)


@pytest.fixture(scope="module")
def footage():
    """Clip name -> a few frames ``[64, 128, 3]`` from its first 200."""
    if not CLIPS.is_dir():
        pytest.skip(f"real clips are not at {CLIPS}; set VLA_EDGE_DATA")
    av = pytest.importorskip("av")
    frames = {}
    for clip in sorted(CLIPS.glob("*.mp4")):
        with av.open(str(clip)) as container:
            taken = islice(container.decode(video=0), 0, 200, 40)
            frames[clip.name] = [
                np.asarray(Image.fromarray(picture.to_ndarray(format="rgb24")).resize((128, 64)))
                for picture in taken
            ]
    assert frames
    return frames


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_tokens_of_real_footage_are_about_as_long_as_text_embeddings(preset, footage):
    """Within [0.5, 2] over all clips; one clip of nearly mid-grey asphalt may have shorter tokens."""
    weights = RandomWeights(PRESETS[preset], seed=0)
    projection, text_norm = patch_projection(weights, FRAME, seed=0), text_embedding_norm(weights)
    ratios = {
        name: np.mean([np.linalg.norm(patch_embed(f, projection), axis=1).mean() for f in frames]) / text_norm
        for name, frames in footage.items()
    }
    assert 0.5 <= np.mean(list(ratios.values())) <= 2.0, ratios
    assert all(0.25 <= ratio <= 4.0 for ratio in ratios.values()), ratios


def test_projection_of_the_checkpoint_wins(tmp_path):
    own = np.random.default_rng(0).normal(size=(64, 768)).astype(np.float32)
    weights = checkpoint(tmp_path, {PATCH_PROJECTION: own})
    assert np.array_equal(patch_projection(weights, FRAME, seed=0), round_to_bfloat16(own))


def test_projection_of_the_checkpoint_with_a_wrong_shape_is_refused(tmp_path):
    weights = checkpoint(tmp_path, {PATCH_PROJECTION: np.zeros((64, 192), np.float32)})
    with pytest.raises(WeightsError, match=r"\[64, 768\].*\[64, 192\]"):
        patch_projection(weights, FRAME, seed=0)
