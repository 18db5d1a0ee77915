# SPDX-License-Identifier: Apache-2.0
"""Every tensor a decoder needs, by its Hugging Face name. Matrices are ``[out, in]``."""

from __future__ import annotations

from vla_edge_ros.model.decoder_config import DecoderConfig

EMBEDDING = "model.embed_tokens.weight"
FINAL_NORM = "model.norm.weight"
LM_HEAD = "lm_head.weight"
# Ours, and optional: see ``patch_embedding`` and ``action_queries``.
PATCH_PROJECTION = "vla.patch_projection"
ACTION_QUERIES = "vla.action_queries"


def layer_prefix(layer: int) -> str:
    return f"model.layers.{layer}."


def head_name(config: DecoderConfig) -> str:
    """The tensor whose rows give logits: the embedding itself where they are tied."""
    return EMBEDDING if config.tie_word_embeddings else LM_HEAD


def tensor_shapes(config: DecoderConfig) -> dict[str, tuple[int, ...]]:
    """Name -> shape, in the order of a forward pass. No ``lm_head`` where it is tied."""
    hidden, inner = config.hidden_size, config.intermediate_size
    shapes: dict[str, tuple[int, ...]] = {EMBEDDING: (config.vocab_size, hidden)}
    for layer in range(config.num_hidden_layers):
        at = layer_prefix(layer)
        shapes[at + "input_layernorm.weight"] = (hidden,)
        for name, size in (("q", config.q_size), ("k", config.kv_size), ("v", config.kv_size)):
            shapes[f"{at}self_attn.{name}_proj.weight"] = (size, hidden)
            if config.qkv_bias:
                shapes[f"{at}self_attn.{name}_proj.bias"] = (size,)
        shapes[at + "self_attn.o_proj.weight"] = (hidden, config.q_size)
        shapes[at + "post_attention_layernorm.weight"] = (hidden,)
        shapes[at + "mlp.gate_proj.weight"] = (inner, hidden)
        shapes[at + "mlp.up_proj.weight"] = (inner, hidden)
        shapes[at + "mlp.down_proj.weight"] = (hidden, inner)
    shapes[FINAL_NORM] = (hidden,)
    if not config.tie_word_embeddings:
        shapes[LM_HEAD] = (config.vocab_size, hidden)
    return shapes
