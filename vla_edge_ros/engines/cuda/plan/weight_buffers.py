# SPDX-License-Identifier: Apache-2.0
"""The weights' buffers by name and size, and what a pass reads of them. Pure arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

from vla_edge_ros.engines.cuda.plan.sizes import Sizes
from vla_edge_ros.engines.cuda.plan.weight_format import BF16

PIECE_BYTES = 32 << 20  # of weights on their way to the device, at start-up

# Read by every pass, whole; beside them the head.
_OF_A_PASS = ("qkv", "output", "gate_up", "down", "norms", "qkv_bias")


@dataclass(frozen=True)
class LayerOffsets:
    """Bytes of one layer's share of each buffer."""

    qkv: int
    output: int
    gate_up: int
    down: int
    norm: int
    bias: int


def layer_offsets(sizes: Sizes) -> LayerOffsets:
    decoder, inner, matrix_bytes = sizes.decoder, sizes.intermediate, sizes.weights.matrix_bytes
    qkv_rows = decoder.q_size + 2 * decoder.kv_size
    return LayerOffsets(
        qkv=matrix_bytes(qkv_rows, decoder.hidden_size),
        output=matrix_bytes(decoder.hidden_size, decoder.q_size),
        gate_up=matrix_bytes(2 * inner, decoder.hidden_size),
        down=matrix_bytes(decoder.hidden_size, inner),
        norm=decoder.hidden_size * 4,
        bias=qkv_rows * 4,
    )


def weight_needs(sizes: Sizes) -> dict[str, int]:
    """Bytes by buffer. A tied full-vocabulary head is the embedding itself."""
    decoder, at = sizes.decoder, layer_offsets(sizes)
    layers, hidden = decoder.num_hidden_layers, decoder.hidden_size
    return {
        "embedding": sizes.embedding.matrix_bytes(decoder.vocab_size, hidden),
        "head": 0 if head_is_embedding(sizes) else sizes.embedding.matrix_bytes(sizes.head_rows, hidden),
        "qkv": layers * at.qkv,
        "output": layers * at.output,
        "gate_up": layers * at.gate_up,
        "down": layers * at.down,
        "norms": (2 * layers + 1) * at.norm,
        "qkv_bias": layers * at.bias,
        "patch_projection": BF16.matrix_bytes(hidden, sizes.patch_values),
    }


def head_is_embedding(sizes: Sizes) -> bool:
    return sizes.decoder.tie_word_embeddings and sizes.head_rows == sizes.decoder.vocab_size


def pass_bytes(sizes: Sizes, slots: int) -> int:
    """Bytes that one pass must read: each weight once, and the keys and values of ``slots`` slots."""
    needs, decoder = weight_needs(sizes), sizes.decoder
    weights = sum(needs[name] for name in _OF_A_PASS) + (needs["head"] or needs["embedding"])
    kept = decoder.num_key_value_heads * sizes.kv.page_bytes(slots, decoder.head_dim)
    return weights + decoder.num_hidden_layers * 2 * kept
