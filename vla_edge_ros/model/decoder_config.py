# SPDX-License-Identifier: Apache-2.0
"""Sizes and switches of a Qwen2- or Llama-family decoder, from a preset or a Hugging Face ``config.json``.

Loading a model that is nearly a Qwen2 or Llama gives fluent nonsense, so whatever would need other arithmetic
is refused. Both generations of the file are read: ``rope_theta`` and ``rope_scaling`` at the top level
(transformers 4), or inside ``rope_parameters`` (transformers 5).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vla_edge_ros.config import ModelSource
from vla_edge_ros.errors import WeightsError


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

PRESETS = {"qwen2.5-coder-1.5b": QWEN2_5_CODER_1_5B, "tiny": TINY}


@dataclass(frozen=True)
class _Family:
    """What a ``model_type`` implies where its config.json is silent."""

    qkv_bias: bool
    max_position_embeddings: int


_FAMILIES = {"qwen2": _Family(True, 32768), "llama": _Family(False, 2048)}
_DEFAULT_ROPE_THETA = 10000.0


def resolve(source: ModelSource) -> DecoderConfig:
    """The sizes that ``model.path``'s config.json, or without a path ``model.preset``, gives."""
    return from_hf_config(Path(source.path)) if source.path else PRESETS[source.preset]


def from_hf_config(source: Mapping[str, Any] | str | Path) -> DecoderConfig:
    """Read a config given as a mapping, a ``config.json``, or the folder that holds one.

    Raises ``WeightsError`` naming the file, the key, what is supported and what was found.
    """
    where, values = _read(source)
    model_type = values.get("model_type")
    if model_type not in _FAMILIES:
        raise WeightsError(f"{where}: model_type must be one of {', '.join(_FAMILIES)}, got {model_type!r}")
    family = _FAMILIES[model_type]
    _refuse_other_arithmetic(where, values)
    heads = _size(where, values, "num_attention_heads")
    kv_heads = _size(where, values, "num_key_value_heads", heads)
    hidden = _size(where, values, "hidden_size")
    head_dim = _size(where, values, "head_dim", hidden // heads)
    if heads % kv_heads:
        raise WeightsError(
            f"{where}: num_attention_heads must be a multiple of num_key_value_heads, "
            f"got {heads} / {kv_heads}"
        )
    if head_dim % 2:
        raise WeightsError(f"{where}: head_dim must be even for rotary positions, got {head_dim}")
    return DecoderConfig(
        hidden_size=hidden,
        intermediate_size=_size(where, values, "intermediate_size"),
        num_hidden_layers=_size(where, values, "num_hidden_layers"),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        vocab_size=_size(where, values, "vocab_size"),
        rope_theta=_rope_theta(where, values),
        rms_norm_eps=_positive(where, "rms_norm_eps", values.get("rms_norm_eps", 1e-6)),
        qkv_bias=family.qkv_bias,
        tie_word_embeddings=bool(values.get("tie_word_embeddings", False)),
        max_position_embeddings=_size(
            where, values, "max_position_embeddings", family.max_position_embeddings
        ),
    )


def _read(source: Mapping[str, Any] | str | Path) -> tuple[str, Mapping[str, Any]]:
    if isinstance(source, Mapping):
        return "config", source
    path = Path(source)
    path = path / "config.json" if path.is_dir() else path
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WeightsError(f"{path}: expected a model folder with config.json, got {error}") from error
    except ValueError as error:
        raise WeightsError(f"{path}: expected JSON, got {error}") from error
    if not isinstance(values, Mapping):
        raise WeightsError(f"{path}: expected a JSON object, got {type(values).__name__}")
    return str(path), values


def _refuse_other_arithmetic(where: str, values: Mapping[str, Any]) -> None:
    """One line a switch: key, the only value this decoder computes, and what is found otherwise."""
    rope = _rope_parameters(where, values)
    rotary_factor = rope.get("partial_rotary_factor", values.get("partial_rotary_factor", 1.0))
    layer_types = set(values.get("layer_types") or ["full_attention"])
    found = (
        ("hidden_act", "silu", values.get("hidden_act", "silu")),
        ("rope_type", "default", rope.get("rope_type", rope.get("type", "default"))),
        ("partial_rotary_factor", 1.0, rotary_factor),
        ("use_sliding_window", False, values.get("use_sliding_window", False)),
        ("layer_types", {"full_attention"}, layer_types),
        ("attention_bias", False, values.get("attention_bias", False)),  # Llama's puts one on o_proj as well
        ("mlp_bias", False, values.get("mlp_bias", False)),
        ("quantization_config", None, values.get("quantization_config")),
    )
    for key, supported, value in found:
        if value != supported:
            raise WeightsError(f"{where}: {key} must be {supported!r}, got {value!r}")


def _rope_parameters(where: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
    rope = values.get("rope_parameters") or values.get("rope_scaling") or {}
    if not isinstance(rope, Mapping):
        raise WeightsError(f"{where}: rope_parameters must be an object, got {rope!r}")
    return rope


def _rope_theta(where: str, values: Mapping[str, Any]) -> float:
    theta = _rope_parameters(where, values).get("rope_theta", values.get("rope_theta", _DEFAULT_ROPE_THETA))
    return _positive(where, "rope_theta", theta)


def _positive(where: str, key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise WeightsError(f"{where}: {key} must be a positive number, got {value!r}")
    return float(value)


def _size(where: str, values: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = values.get(key)
    if value is None:
        value = default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise WeightsError(f"{where}: {key} must be a positive integer, got {value!r}")
    return value
