# SPDX-License-Identifier: Apache-2.0
"""Reading config.json: published files as they are, and a refusal for each switch that is not computed."""

import json

import pytest

from vla_edge_ros.config import ModelSource
from vla_edge_ros.errors import ConfigError, WeightsError
from vla_edge_ros.model.decoder_config import QWEN2_5_CODER_1_5B, TINY, from_hf_config, resolve

# What transformers 4 wrote for Qwen2.5-Coder-1.5B-Instruct.
QWEN = {
    "architectures": ["Qwen2ForCausalLM"],
    "attention_dropout": 0.0,
    "bos_token_id": 151643,
    "eos_token_id": 151645,
    "hidden_act": "silu",
    "hidden_size": 1536,
    "initializer_range": 0.02,
    "intermediate_size": 8960,
    "max_position_embeddings": 32768,
    "max_window_layers": 28,
    "model_type": "qwen2",
    "num_attention_heads": 12,
    "num_hidden_layers": 28,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "sliding_window": 131072,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "use_sliding_window": False,
    "vocab_size": 151936,
}
LLAMA = {
    "model_type": "llama",
    "hidden_act": "silu",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "head_dim": 24,
    "vocab_size": 320,
    "rms_norm_eps": 1e-5,
    "rope_scaling": None,
    "attention_bias": False,
}


def test_qwen_file_gives_the_preset():
    assert from_hf_config(QWEN) == QWEN2_5_CODER_1_5B


def test_llama_file_has_no_bias_and_an_own_head_size():
    config = from_hf_config(LLAMA)
    assert not config.qkv_bias and not config.tie_word_embeddings
    assert (config.head_dim, config.q_size, config.num_key_value_heads) == (24, 96, 4)
    assert (config.rope_theta, config.rms_norm_eps, config.max_position_embeddings) == (1e4, 1e-5, 2048)


def test_rope_parameters_of_transformers_5_are_read():
    values = {k: v for k, v in QWEN.items() if k != "rope_theta"}
    values["rope_parameters"] = {"rope_theta": 1e6, "rope_type": "default"}
    values["layer_types"] = ["full_attention"] * 28
    assert from_hf_config(values) == QWEN2_5_CODER_1_5B


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"model_type": "mistral"}, "model_type"),
        ({"model_type": None}, "model_type"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "rope_type"),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0}}, "rope_scaling: type"),
        ({"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e6}}, "rope_type"),
        ({"rope_parameters": [1]}, "rope_parameters"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"use_sliding_window": True}, "use_sliding_window"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types"),
        ({"attention_bias": True}, "attention_bias"),
        ({"mlp_bias": True}, "mlp_bias"),
        ({"quantization_config": {"quant_method": "awq"}}, "quantization_config"),
        ({"num_key_value_heads": 5}, "num_key_value_heads"),
        ({"head_dim": 127}, "head_dim"),
        ({"hidden_size": None}, "hidden_size"),
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"num_attention_heads": True}, "num_attention_heads"),
        ({"vocab_size": "151936"}, "vocab_size"),
        ({"rope_theta": "big"}, "rope_theta"),
        ({"rope_theta": float("nan")}, "rope_theta"),
        ({"rms_norm_eps": -1e-6}, "rms_norm_eps"),
    ],
)
def test_what_cannot_be_computed_is_refused_with_the_key_and_the_value_found(change, key):
    with pytest.raises(WeightsError, match=key) as caught:
        from_hf_config({**QWEN, **change})
    assert "got" in str(caught.value)


def test_folder_and_file_are_read(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(QWEN))
    assert from_hf_config(tmp_path) == from_hf_config(tmp_path / "config.json") == QWEN2_5_CODER_1_5B
    assert resolve(ModelSource(path=str(tmp_path))) == QWEN2_5_CODER_1_5B


def test_home_is_found_in_a_path_and_a_user_who_is_unknown_is_no_crash(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(QWEN))
    assert resolve(ModelSource(path="~/model")) == QWEN2_5_CODER_1_5B
    with pytest.raises(
        ConfigError, match="model.path must be a model folder.*got '~nobody-of-that-name/model'"
    ):
        resolve(ModelSource(path="~nobody-of-that-name/model"))


def test_path_with_an_environment_variable_is_refused_with_the_reason(monkeypatch, tmp_path):
    monkeypatch.setenv("MODELS", str(tmp_path))
    with pytest.raises(ConfigError, match=r"model.path .*\$MODELS/x.*variables in it are not replaced"):
        resolve(ModelSource(path="$MODELS/x"))


def test_source_without_a_path_is_its_preset():
    assert resolve(ModelSource(preset="tiny")) == TINY


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00"])
def test_broken_file_is_refused_by_name(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(WeightsError, match=r"config\.json"):
        from_hf_config(tmp_path)


def test_missing_folder_is_refused_by_name(tmp_path):
    with pytest.raises(WeightsError, match="nowhere"):
        from_hf_config(tmp_path / "nowhere")
