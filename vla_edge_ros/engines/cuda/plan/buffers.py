# SPDX-License-Identifier: Apache-2.0
"""The engine's buffers by name and size, apart from the weights."""

from __future__ import annotations

from vla_edge_ros.engines.cuda.plan.chunk_state import state_dtype
from vla_edge_ros.engines.cuda.plan.grid_barrier import BARRIER_BYTES
from vla_edge_ros.engines.cuda.plan.projection_tiling import TILE_K
from vla_edge_ros.engines.cuda.plan.sizes import PassSizes, Sizes

CANDIDATE_BYTES = 8


def page_bytes(sizes: Sizes) -> int:
    """Keys, or values, of all KV heads in one page of one layer."""
    decoder = sizes.decoder
    return decoder.num_key_value_heads * sizes.kv.page_bytes(sizes.page_slots, decoder.head_dim)


def kv_layer_bytes(sizes: Sizes) -> int:
    """Keys, or values, of one layer: ``[page][KV head][what kv_page.py says]``."""
    return sizes.pages * page_bytes(sizes)


def scratch_needs(sizes: Sizes) -> dict[str, int]:
    """Bytes by buffer; those of a pass are prefixed with its name."""
    decoder = sizes.decoder
    state = state_dtype(sizes.pages).itemsize
    needs = {
        "kv_cache": decoder.num_hidden_layers * 2 * kv_layer_bytes(sizes),
        "rotary": sizes.ranks * decoder.head_dim // 2 * 8,
        "logits": sizes.head_rows * 4,
        "candidates": sizes.decode.head.blocks * CANDIDATE_BYTES,
        "status": 4,
        "barriers": BARRIER_BYTES if sizes.persistent else 0,
        "next_token": decoder.hidden_size * 4,
        "pixels": sizes.frame[0] * sizes.frame[1] * 3,
        "token_ids": sizes.prefill.tokens * 4,
        "patches": sizes.prefill.tokens * sizes.patch_values * 2,
        # The drafts' rows lie behind the frame's, where a pass over both finds them.
        "tokens_in": (sizes.prefill.tokens + sizes.draft_tokens) * decoder.hidden_size * 4,
    }
    if sizes.layout.frame_pages > 1:
        needs["frame_rows"] = sizes.frame_passes * sizes.prefill.tokens * decoder.hidden_size * 4
    for name, variant in sizes.passes.items():
        needs[f"{name}_state"] = state
        needs.update({f"{name}_{part}": size for part, size in _pass_needs(sizes, variant).items()})
    if sizes.draft_tokens:
        rows = sizes.draft_tokens
        needs["draft_ids"] = rows * 4
        needs["draft_status"] = rows * 4
        needs["draft_logits"] = rows * sizes.head_rows * 4
        needs["draft_candidates"] = rows * sizes.passes["verify"].head.blocks * CANDIDATE_BYTES
    return needs


def _pass_needs(sizes: Sizes, variant: PassSizes) -> dict[str, int]:
    decoder, tokens = sizes.decoder, variant.tokens
    row = tokens * decoder.hidden_size
    query_rows = decoder.num_key_value_heads * variant.attention.splits * tokens * decoder.group_size
    return {
        "residual_a": row * 4,
        "residual_b": row * 4,
        "output_partials": variant.output.split_k * row * 4,
        "down_partials": variant.down.split_k * row * 4,
        "queries": tokens * decoder.q_size * 4,
        "attended": query_rows * decoder.head_dim * 4,
        "softmax": query_rows * 8,
        "activated": sizes.intermediate // TILE_K * variant.rows.operand_bytes,
        "operand": max(decoder.hidden_size, decoder.q_size) // TILE_K * variant.rows.operand_bytes,
    }
