# SPDX-License-Identifier: Apache-2.0
"""Which sizes a name stands for."""

from __future__ import annotations

import json
import math

import pytest

from vla_edge_ros.errors import VlaEdgeError
from vla_edge_ros.model.tensor_shapes import tensor_shapes
from vla_edge_ros.planner.models import SIZES, find_model

# As the published checkpoints count them (model.safetensors of each).
PARAMETERS = {
    "qwen2.5-coder-0.5b": 494_032_768,
    "qwen2.5-coder-1.5b": 1_543_714_304,
    "qwen2.5-coder-3b": 3_085_938_688,
    "qwen2.5-coder-7b": 7_615_616_512,
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_sizes_have_as_many_parameters_as_the_published_checkpoint(name):
    assert sum(math.prod(shape) for shape in tensor_shapes(SIZES[name]).values()) == PARAMETERS[name]


def test_a_folder_is_read(tmp_path):
    made = SIZES["qwen2.5-coder-0.5b"]
    keys = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    config = {key: getattr(made, key) for key in (*keys, "num_key_value_heads", "vocab_size")}
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "qwen2", "tie_word_embeddings": True, "rope_theta": 1e6, **config})
    )
    assert find_model(str(tmp_path)) == made


def test_a_shipped_model_is_found_by_name():
    assert find_model("tabletop-1024").hidden_size == 128


@pytest.mark.parametrize("name", ["", "qwen9", "/nowhere/at/all", "a\0b"])
def test_what_is_neither_is_one_line(name):
    with pytest.raises(VlaEdgeError) as caught:
        find_model(name)
    assert "--model must be one of qwen2.5-coder-0.5b" in str(caught.value) and "\n" not in str(caught.value)


def test_a_folder_without_a_config_is_one_line(tmp_path):
    with pytest.raises(VlaEdgeError) as caught:
        find_model(str(tmp_path))
    assert "config.json" in str(caught.value) and "\n" not in str(caught.value)
