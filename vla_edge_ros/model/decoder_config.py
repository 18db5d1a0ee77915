# SPDX-License-Identifier: Apache-2.0
"""Sizes and switches of a Qwen2- or Llama-family decoder."""

from __future__ import annotations

from dataclasses import dataclass

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
)

PRESETS = {"qwen2.5-coder-1.5b": QWEN2_5_CODER_1_5B, "tiny": TINY}
