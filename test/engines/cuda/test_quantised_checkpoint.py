# SPDX-License-Identifier: Apache-2.0
"""Integers are made of what a checkpoint stores, whatever its type: not of a bfloat16 in between."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest
from safetensors.numpy import save_file

from vla_edge_ros.config import ActionConfig, CacheConfig, EngineConfig, ModelSource, VlaConfig
from vla_edge_ros.model.decoder_config import DecoderConfig
from vla_edge_ros.model.quantise import as_kept
from vla_edge_ros.model.tensor_shapes import tensor_shapes
from vla_edge_ros.model.weights import open_weights

pytestmark = pytest.mark.gpu

DECODER = DecoderConfig(
    hidden_size=192,
    intermediate_size=203,  # odd: a row ends inside a pair
    num_hidden_layers=1,
    num_attention_heads=3,
    num_key_value_heads=1,
    head_dim=64,
    vocab_size=301,
    tie_word_embeddings=False,
)


@pytest.fixture(params=[np.float16, np.float32])
def folder(request, tmp_path):
    rng = np.random.default_rng(5)
    tensors = {
        name: (0.05 * rng.standard_normal(shape)).astype(request.param)
        for name, shape in tensor_shapes(DECODER).items()
    }
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen2", **asdict(DECODER)}))
    return tmp_path


@pytest.mark.parametrize("weights", ["int8", "int4"])
def test_the_device_makes_the_twins_integers_of_every_matrix(folder, weights):
    from vla_edge_ros.bench.kernels.weight_inspection import read_weights
    from vla_edge_ros.engines.cuda.engine import CudaEngine
    from vla_edge_ros.engines.cuda.load.packed_weights import targets

    config = VlaConfig(
        model=ModelSource(path=str(folder)),
        cache=CacheConfig(capacity_slots=1024),
        action=ActionConfig(bins=37),
        engine=EngineConfig(weights=weights),
    )
    engine = CudaEngine(config)
    engine.load()
    kept = as_kept(open_weights(config.model), weights)
    assert kept.config == DECODER
    for target in targets(engine.sizes):
        if target.matrix:
            rows, values = read_weights(engine, target)
            np.testing.assert_array_equal(values, kept.rows(target.tensor, rows), err_msg=target.tensor)
    engine.close()
