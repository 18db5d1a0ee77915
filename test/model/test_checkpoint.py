# SPDX-License-Identifier: Apache-2.0
"""Checkpoint folders: every stored type, shards, and each way in which a folder can be broken."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from checkpoint_folders import EMBEDDING, K_BIAS, reference, stored, write, write_sharded, write_stored
from hypothesis import given, settings
from hypothesis import strategies as st

from vla_edge_ros.errors import WeightsError
from vla_edge_ros.model.bfloat16 import bfloat16_to_float32
from vla_edge_ros.model.checkpoint import CheckpointWeights
from vla_edge_ros.model.decoder_config import TINY
from vla_edge_ros.model.tensor_shapes import tensor_shapes

WITHOUT_BIAS = dataclasses.replace(TINY, qkv_bias=False)


@pytest.mark.parametrize("kind", ["bfloat16", "float16", "float32"])
def test_every_type_is_read_back_exactly(tmp_path, kind):
    tensors = {name: np.round(values * 64) / 64 for name, values in reference().items()}  # exact in all three
    write(tmp_path, tensors, kind)
    weights = CheckpointWeights(tmp_path, TINY)
    for name, values in tensors.items():
        assert weights.tensor(name).dtype == np.float32
        assert np.array_equal(weights.tensor(name), values)
        assert np.array_equal(weights.rows(name, [2, 0, 2]), values[[2, 0, 2]])
        type_name, raw = weights.raw(name)
        assert type_name == kind and raw.shape == values.shape and not raw.flags.writeable
        widened = bfloat16_to_float32(raw) if kind == "bfloat16" else raw
        assert np.array_equal(widened, values)


def test_raw_elements_are_mapped_and_not_copied(tmp_path):
    write(tmp_path, reference())
    base = CheckpointWeights(tmp_path, TINY).raw(EMBEDDING)[1]
    while base.base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)


def test_shards_equal_a_single_file(tmp_path):
    tensors = reference()
    write_sharded(tmp_path, tensors)
    weights = CheckpointWeights(tmp_path, TINY)
    for name, values in tensors.items():
        assert np.array_equal(weights.tensor(name), values)


def test_untied_decoder_without_bias_needs_its_head_and_no_bias(tmp_path):
    tensors = reference(WITHOUT_BIAS)
    write(tmp_path, tensors)
    assert CheckpointWeights(tmp_path, WITHOUT_BIAS).tensor("lm_head.weight").shape == (512, 64)
    del tensors["lm_head.weight"]
    write(tmp_path, tensors)
    with pytest.raises(WeightsError, match=r"lm_head\.weight is missing"):
        CheckpointWeights(tmp_path, WITHOUT_BIAS)


def test_optional_tensor_is_found_only_where_stored(tmp_path):
    write(tmp_path, {**reference(), "vla.patch_projection": np.ones((64, 768), np.float32)})
    weights = CheckpointWeights(tmp_path, TINY)
    assert weights.has("vla.patch_projection") and not weights.has("vla.other")


@pytest.mark.parametrize("name", [EMBEDDING, K_BIAS, "model.norm.weight"])
def test_missing_tensor_is_named(tmp_path, name):
    tensors = reference()
    del tensors[name]
    write(tmp_path, tensors)
    with pytest.raises(WeightsError, match=f"{name} is missing"):
        CheckpointWeights(tmp_path, TINY)


def test_wrong_shape_names_file_tensor_expected_and_got(tmp_path):
    write(tmp_path, {**reference(), K_BIAS: np.zeros((31,), np.float32)})
    with pytest.raises(WeightsError) as caught:
        CheckpointWeights(tmp_path, TINY)
    for part in ("model.safetensors", K_BIAS, "[32]", "[31]"):
        assert part in str(caught.value)


def test_wrong_type_names_file_tensor_expected_and_got(tmp_path):
    tensors = {name: stored(values, "bfloat16") for name, values in reference().items()}
    tensors[K_BIAS] = stored(np.zeros(32), "float64")
    write_stored(tmp_path / "model.safetensors", tensors)
    with pytest.raises(WeightsError) as caught:
        CheckpointWeights(tmp_path, TINY)
    for part in ("model.safetensors", K_BIAS, "BF16", "F64"):
        assert part in str(caught.value)


def test_wrong_type_of_an_optional_tensor_is_refused_when_it_is_read(tmp_path):
    tensors = {name: stored(values, "bfloat16") for name, values in reference().items()}
    tensors["vla.patch_projection"] = stored(np.zeros(32), "float64")
    write_stored(tmp_path / "model.safetensors", tensors)
    with pytest.raises(WeightsError, match="vla.patch_projection must be BF16, F16 or F32, got F64"):
        CheckpointWeights(tmp_path, TINY).tensor("vla.patch_projection")


@pytest.mark.parametrize("keep", [0, 4, 8, 200, -1])
def test_cut_file_is_refused_by_name(tmp_path, keep):
    write(tmp_path, reference())
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(WeightsError, match=r"model\.safetensors: not a whole safetensors file"):
        CheckpointWeights(tmp_path, TINY)


@pytest.mark.parametrize("file", ["pytorch_model.bin", "model-q4.gguf", "weights.safetensors"])
def test_weights_under_another_name_are_named(tmp_path, file):
    (tmp_path / file).write_bytes(b"x")
    with pytest.raises(WeightsError, match=rf"expected model\.safetensors or .*, found only {file}"):
        CheckpointWeights(tmp_path, TINY)


@pytest.mark.parametrize("file", ["adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"])
def test_adapter_beside_base_weights_is_refused(tmp_path, file):
    write(tmp_path, reference())
    (tmp_path / file).write_bytes(b"{}")
    with pytest.raises(WeightsError, match=rf"{file}: adapters are not applied: merge it"):
        CheckpointWeights(tmp_path, TINY)


@pytest.mark.parametrize(
    "name",
    [
        "model.layers.0.self_attn.q_proj.lora_A.weight",
        "base_model.model.model.layers.0.self_attn.q_proj.weight",
        "model.layers.0.mlp.up_proj.base_layer.weight",
        "lm_head.modules_to_save.default.weight",
    ],
)
def test_adapter_tensors_in_the_file_are_refused_by_name(tmp_path, name):
    write(tmp_path, {**reference(), name: np.ones((2, 2), np.float32)})
    with pytest.raises(WeightsError, match=f"tensor {name} is an adapter's"):
        CheckpointWeights(tmp_path, TINY)


@pytest.mark.parametrize(
    "name", ["model.layers.2.input_layernorm.weight", K_BIAS.replace("k_proj", "o_proj"), "lm_head.bias"]
)
def test_tensor_of_another_decoder_is_refused(tmp_path, name):
    write(tmp_path, {**reference(), name: np.ones(3, np.float32)})
    with pytest.raises(WeightsError, match=f"other than config.json describes, got {name}"):
        CheckpointWeights(tmp_path, TINY)


def test_what_belongs_to_something_else_is_listed_as_unused(tmp_path):
    write(tmp_path, {**reference(), "score.weight": np.ones(3), "media3_floralora_x.weight": np.ones(3)})
    assert CheckpointWeights(tmp_path, TINY).unused == ("media3_floralora_x.weight", "score.weight")


@pytest.mark.parametrize("kind", ["bfloat16", "float32"])
def test_tied_head_that_is_stored_too_must_be_the_embedding(tmp_path, kind):
    tied = dataclasses.replace(WITHOUT_BIAS, tie_word_embeddings=True, vocab_size=5000)
    tensors = reference(tied)
    head = tensors[EMBEDDING].copy()
    write(tmp_path, {**tensors, "lm_head.weight": head}, kind)
    assert np.array_equal(CheckpointWeights(tmp_path, tied).tensor(EMBEDDING), tensors[EMBEDDING])
    head[4999, 15] += 1
    write(tmp_path, {**tensors, "lm_head.weight": head}, kind)
    with pytest.raises(WeightsError, match="lm_head.weight must equal model.embed_tokens.weight"):
        CheckpointWeights(tmp_path, tied)


def test_tensor_that_lies_in_two_shards_is_refused(tmp_path):
    files = write_sharded(tmp_path, reference())
    other = next(file for file in files.values() if file != files[K_BIAS])
    names = [name for name, file in files.items() if file == other]
    write(tmp_path, {name: reference()[name] for name in [*names, K_BIAS]}, file=other)
    with pytest.raises(WeightsError, match=f"tensor {K_BIAS} lies in .* as well"):
        CheckpointWeights(tmp_path, TINY)


@given(data=st.binary(max_size=24), at=st.integers(0, 3000), cut=st.integers(0, 64))
@settings(max_examples=150)
def test_damaged_header_is_read_or_refused_in_one_line(tmp_path_factory, data, at, cut):
    folder = tmp_path_factory.mktemp("damaged")
    write(folder, reference())
    path = folder / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:at] + data + content[at + cut :])
    try:
        weights = CheckpointWeights(folder, TINY)
        for name, shape in tensor_shapes(TINY).items():
            assert weights.tensor(name).shape == shape
    except WeightsError as error:
        assert str(folder) in str(error) and "\n" not in str(error)


def test_folder_without_weights_says_what_was_expected(tmp_path):
    with pytest.raises(WeightsError, match=r"model\.safetensors or model\.safetensors\.index\.json"):
        CheckpointWeights(tmp_path, TINY)


def test_missing_shard_is_named(tmp_path):
    write_sharded(tmp_path, reference())
    (tmp_path / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(WeightsError, match="model-00002-of-00003"):
        CheckpointWeights(tmp_path, TINY)


def test_index_that_places_a_tensor_in_the_wrong_shard_is_refused(tmp_path):
    files = write_sharded(tmp_path, reference())
    files[EMBEDDING] = next(file for file in files.values() if file != files[EMBEDDING])
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    with pytest.raises(WeightsError, match=EMBEDDING):
        CheckpointWeights(tmp_path, TINY)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"weight_map": []}', '{"weight_map": {"a": 1}}'])
def test_broken_index_is_refused_by_name(tmp_path, text):
    (tmp_path / "model.safetensors.index.json").write_text(text)
    with pytest.raises(WeightsError, match=r"index\.json"):
        CheckpointWeights(tmp_path, TINY)


def test_index_may_not_point_outside_its_folder(tmp_path):
    text = json.dumps({"weight_map": {EMBEDDING: "../other.safetensors"}})
    (tmp_path / "model.safetensors.index.json").write_text(text)
    with pytest.raises(WeightsError, match="own folder"):
        CheckpointWeights(tmp_path, TINY)
