# SPDX-License-Identifier: Apache-2.0
"""Sizes and switches of a Qwen2- or Llama-family decoder, from a preset or a Hugging Face ``config.json``.

Loading a model that is nearly a Qwen2 or Llama gives fluent nonsense, so whatever would need other arithmetic
is refused, and so are keys that contradict each other: a key is read as transformers reads it, or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vla_edge_ros.config import ModelSource
from vla_edge_ros.errors import ConfigError, WeightsError
from vla_edge_ros.model.config_values import MAX_LAYERS, ConfigValues
from vla_edge_ros.model.model_file import read_json_object
from vla_edge_ros.model.rope_settings import rope_theta

MIN_RMS_NORM_EPS = 1e-30  # smaller ones are zero, or nearly, in the engines' float32
_OWN_CODE = {"AutoModel", "AutoModelForCausalLM"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderConfig:
    """One decoder's sizes, in Hugging Face's names where they have one."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    rope_theta: float = 1e6
    rms_norm_eps: float = 1e-6
    qkv_bias: bool = True
    tie_word_embeddings: bool = True
    max_position_embeddings: int = 32768

    def __post_init__(self) -> None:
        if self.num_attention_heads % self.num_key_value_heads:
            raise WeightsError(
                f"num_attention_heads must be a multiple of num_key_value_heads, "
                f"got {self.num_attention_heads} / {self.num_key_value_heads}"
            )

    @property
    def q_size(self) -> int:
        return self.num_attention_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        return self.num_key_value_heads * self.head_dim

    @property
    def group_size(self) -> int:
        """Query heads that share one KV head."""
        return self.num_attention_heads // self.num_key_value_heads


QWEN2_5_CODER_1_5B = DecoderConfig(
    hidden_size=1536,
    intermediate_size=8960,
    num_hidden_layers=28,
    num_attention_heads=12,
    num_key_value_heads=2,
    head_dim=128,
    vocab_size=151936,
)

TINY = DecoderConfig(
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=16,
    vocab_size=512,
    # With random weights a tied head answers every token with itself, whatever the picture.
    tie_word_embeddings=False,
)

# The tiny one of tests and benchmarks that run on a GPU, whose kernels need heads of 64.
SMALL = DecoderConfig(
    hidden_size=128,
    intermediate_size=256,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=64,
    vocab_size=600,
)

PRESETS = {"qwen2.5-coder-1.5b": QWEN2_5_CODER_1_5B, "tiny": TINY}


@dataclass(frozen=True)
class _Family:
    """What a ``model_type`` implies where its config.json is silent."""

    qkv_bias: bool
    max_position_embeddings: int
    num_key_value_heads: int | None  # None: as many as query heads
    head_dim_may_be_null: bool
    heads_divide_hidden_size: bool  # even beside a head_dim of its own


_FAMILIES = {
    "qwen2": _Family(True, 32768, 32, head_dim_may_be_null=False, heads_divide_hidden_size=False),
    "llama": _Family(False, 2048, None, head_dim_may_be_null=True, heads_divide_hidden_size=True),
}


def resolve(source: ModelSource) -> DecoderConfig:
    """The sizes that ``model.path``'s config.json, or without a path ``model.preset``, gives."""
    if not source.path:
        return PRESETS[source.preset]
    if not Path(source.path).exists():
        hint = " (environment variables in it are not replaced)" if "$" in source.path else ""
        raise ConfigError(
            f"model.path must be a model folder with config.json, got {source.path!r}: "
            f"there is no {Path(source.path).absolute()}{hint}"
        )
    return from_hf_config(Path(source.path))


def from_hf_config(source: Mapping[str, Any] | str | Path) -> DecoderConfig:
    """Read a config given as a mapping, a ``config.json``, or the folder that holds one.

    Raises ``WeightsError`` naming the file, the key, what is supported and what was found. What transformers
    cannot load is refused too.
    """
    config = _open(source)
    model_type = config.raw("model_type")
    if not isinstance(model_type, str) or model_type not in _FAMILIES:
        config.refuse("model_type", f"one of {', '.join(_FAMILIES)}")
    family = _FAMILIES[model_type]
    heads = config.size("num_attention_heads")
    hidden = config.size("hidden_size")
    layers = config.size("num_hidden_layers", high=MAX_LAYERS)
    _refuse_other_arithmetic(config, layers)
    if family.heads_divide_hidden_size and hidden % heads:
        config.refuse("hidden_size", f"a multiple of num_attention_heads = {heads}")
    kv_heads = _kv_heads(config, family, heads)
    if heads % kv_heads:
        raise WeightsError(
            f"{config.where}: num_attention_heads must be a multiple of num_key_value_heads, "
            f"got {heads} / {kv_heads}"
        )
    head_dim = _head_dim(config, family, hidden, heads)
    if head_dim % 2:
        raise WeightsError(f"{config.where}: head_dim must be even for rotary positions, got {head_dim}")
    return DecoderConfig(
        hidden_size=hidden,
        intermediate_size=config.size("intermediate_size"),
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        vocab_size=config.size("vocab_size"),
        rope_theta=rope_theta(config),
        rms_norm_eps=config.number("rms_norm_eps", 1e-6, low=MIN_RMS_NORM_EPS, below=1.0),
        qkv_bias=family.qkv_bias,
        tie_word_embeddings=config.flag("tie_word_embeddings", False),
        max_position_embeddings=config.size("max_position_embeddings", family.max_position_embeddings),
    )


def _open(source: Mapping[str, Any] | str | Path) -> ConfigValues:
    if isinstance(source, Mapping):
        return ConfigValues("config", source)
    path = Path(source)
    path = path / "config.json" if path.is_dir() else path
    return ConfigValues(str(path), read_json_object(path))


def _refuse_other_arithmetic(config: ConfigValues, layers: int) -> None:
    """One line a switch: key and the only value that this decoder computes."""
    for key, only in (
        ("hidden_act", "silu"),
        ("use_sliding_window", False),
        ("attention_bias", False),  # Llama's puts one on o_proj as well
        ("mlp_bias", False),
        ("is_causal", True),
        ("quantization_config", None),
        ("per_layer_config", None),
    ):
        config.require(key, only)
    config.check_integer("sliding_window", or_null=True)
    config.check_integer("max_window_layers", or_null=False)
    layer_types = config.raw("layer_types")
    if layer_types is not None and layer_types != ["full_attention"] * layers:
        config.refuse("layer_types", f"null or {layers} times 'full_attention', one a layer")
    code = config.section("auto_map")
    if code is not None and code.keys() & _OWN_CODE:
        raise WeightsError(
            f"{config.where}: auto_map names the checkpoint's own code for {', '.join(sorted(code.keys()))}: "
            "what it computes is not known here"
        )


def _kv_heads(config: ConfigValues, family: _Family, heads: int) -> int:
    if "num_key_value_heads" not in config:
        return family.num_key_value_heads or heads
    return heads if config.raw("num_key_value_heads") is None else config.size("num_key_value_heads")


def _head_dim(config: ConfigValues, family: _Family, hidden: int, heads: int) -> int:
    is_null = "head_dim" in config and config.raw("head_dim") is None
    if "head_dim" in config and not (is_null and family.head_dim_may_be_null):
        return config.size("head_dim")
    if hidden < heads:
        config.refuse("hidden_size", f"at least num_attention_heads = {heads}")
    return hidden // heads
