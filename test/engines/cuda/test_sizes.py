# SPDX-License-Identifier: Apache-2.0
"""Which sizes are taken and their tiling; what is refused, with the numbers."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vla_edge_ros.config import ActionConfig, CacheConfig, EngineConfig, FrameConfig, VlaConfig
from vla_edge_ros.engines.cuda.plan.device_sizes import Device
from vla_edge_ros.engines.cuda.plan.kv_page import KV_FORMATS
from vla_edge_ros.engines.cuda.plan.planner import QKV_TOKEN_BYTES, plan
from vla_edge_ros.engines.cuda.plan.projection_tiling import (
    GEMM_WARPS,
    MOST_RING_BYTES,
    TILE_K,
    plan_projections,
)
from vla_edge_ros.engines.cuda.plan.token_rows import TokenRows
from vla_edge_ros.engines.cuda.plan.weight_format import FORMATS, TILE_ROWS
from vla_edge_ros.errors import EngineError
from vla_edge_ros.model.decoder_config import QWEN2_5_CODER_1_5B, TINY, DecoderConfig

H200 = Device("H200", 90, 132, 232448, 233472)
DEVICES = (
    H200,
    Device("A100", 80, 108, 166912, 167936),
    Device("Orin", 87, 16, 166912, 167936),
    Device("4090", 89, 128, 101376, 102400),
    Device("5090", 120, 170, 101376, 102400),
)


def with_sizes(**sizes):
    return dataclasses.replace(QWEN2_5_CODER_1_5B, **sizes)


@pytest.mark.parametrize(
    ("decoder", "config", "device", "text"),
    [
        (TINY, VlaConfig(), H200, "head_dim to be 64 or 128, got 16"),
        (with_sizes(hidden_size=1504), VlaConfig(), H200, "hidden_size to be a multiple of 64, got 1504"),
        (with_sizes(), VlaConfig(), Device("V100", 70, 80, 98304, 98304), "compute capability .* got 7.0"),
        (
            with_sizes(),
            VlaConfig(cache=CacheConfig(capacity_slots=4000, page_slots=40)),
            H200,
            "cache.page_slots to be 16, 32, 48 or 64, got 40",
        ),
        (
            with_sizes(),
            VlaConfig(
                frame=FrameConfig(width=256, height=128),
                cache=CacheConfig(capacity_slots=2048, page_slots=128),
            ),
            H200,
            "cache.page_slots|vision tokens",
        ),
    ],
)
def test_refused_with_what_is_needed_and_what_came(decoder, config, device, text):
    with pytest.raises(EngineError, match=text):
        plan(decoder, config, device)


decoders = st.builds(
    lambda hidden, inner, kv_heads, group, head_dim, tied: DecoderConfig(
        hidden_size=64 * hidden,
        intermediate_size=inner,
        num_hidden_layers=1,
        num_attention_heads=kv_heads * group,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        vocab_size=1000,
        tie_word_embeddings=tied,
    ),
    st.integers(1, 64),
    st.integers(1, 16000),
    st.integers(1, 8),
    st.integers(1, 8),
    st.sampled_from([64, 128]),
    st.booleans(),
)


@given(
    decoders,
    st.sampled_from(DEVICES),
    st.sampled_from([(128, 64, 32), (48, 32, 16), (128, 128, 64)]),
    st.sampled_from(sorted(FORMATS)),
    st.sampled_from(sorted(KV_FORMATS)),
)
def test_every_accepted_size_fits_every_chip_in_every_format(decoder, device, frame, weights, kv):
    width, height, slots = frame
    config = VlaConfig(
        frame=FrameConfig(width=width, height=height),
        cache=CacheConfig(capacity_slots=slots * 64, page_slots=slots),
        engine=EngineConfig(weights=weights, kv=kv, draft="last_action"),
    )
    sizes = plan(decoder, config, device)
    assert sizes.macros(sizes.decode)["KV_BITS"] == KV_FORMATS[kv].bits
    if sizes.persistent:
        assert sizes.persistent.shared_bytes <= device.shared_bytes
    for variant in sizes.passes.values():
        layer = (variant.qkv, variant.output, variant.gate_up, variant.down)
        for tiling in (*layer, variant.head, variant.patch):
            assert tiling.shared_bytes <= device.shared_bytes
            assert tiling.blocks >= 1 and tiling.stages >= 1 and 1 <= tiling.stage_tiles <= 6
            ring = tiling.stages * tiling.weights.stage_bytes(tiling.stage_tiles)
            assert ring <= MOST_RING_BYTES and GEMM_WARPS * ring < tiling.shared_bytes
        own = variant.tokens * QKV_TOKEN_BYTES
        assert variant.qkv.shared_bytes + own <= device.shared_bytes, "qkv.cu's places and turns are beside"
        assert variant.qkv.split_k == variant.gate_up.split_k == 1, "their epilogues need whole sums"
        attention = variant.attention
        assert attention.shared_bytes <= device.shared_bytes and attention.threads <= 1024
        assert attention.splits <= 32
        rows = variant.tokens * decoder.group_size
        assert attention.row_warps * attention.row_groups * TILE_ROWS >= rows
    # What gives an action token the same bits in each of them.
    decode = sizes.decode
    for name in ("drafted", "verify", "prefill"):
        variant = sizes.passes[name]
        assert variant.attention.key_warps == decode.attention.key_warps
        assert variant.attention.action_splits == decode.attention.action_splits
        for family in ("qkv", "output", "gate_up", "down", "head"):
            tiling, step = getattr(variant, family), getattr(decode, family)
            assert (tiling.split_k, tiling.stage_tiles) == (step.split_k, step.stage_tiles)
    assert sizes.passes["drafted"].attention.frame_splits == sizes.prefill.attention.frame_splits


@pytest.mark.parametrize(
    ("names", "draft", "room"),
    [
        (8, "last_action", 8),
        (9, "last_action", 16),
        (1, "last_action", 0),
        (8, "none", 0),
        (40, "last_action", 0),
    ],
)
def test_drafts_need_room_for_every_token_of_an_action(names, draft, room):
    action = ActionConfig(
        names=tuple(f"joint {i}" for i in range(names)),
        low=(-1.0,) * names,
        high=(1.0,) * names,
        kinds=("position",) * names,
    )
    cache = CacheConfig(capacity_slots=4096, page_slots=64)
    config = VlaConfig(action=action, cache=cache, engine=EngineConfig(draft=draft))
    assert plan(QWEN2_5_CODER_1_5B, config, H200).draft_tokens == room


@given(st.integers(1, 64), st.integers(1, 2000), st.integers(4, 1200), st.sampled_from(DEVICES))
def test_no_cut_is_much_worse_than_the_best_possible(token_tiles, row_tiles, k_tiles, device):
    """The busiest block reads at most twice its fair share, where there is enough to share out."""
    step = TokenRows(0, 1)
    (tiling,) = plan_projections(
        [step], row_tiles, k_tiles, 8, device.multiprocessors, device.shared_bytes, device.shared_bytes_sm
    )
    busiest = -(-row_tiles // tiling.blocks) * -(-k_tiles // tiling.split_k)
    fair = row_tiles * k_tiles / device.multiprocessors
    assert busiest <= max(2 * fair, -(-k_tiles // 8) * 2)
    assert tiling.blocks * tiling.split_k <= max(device.multiprocessors, tiling.split_k)


@pytest.mark.parametrize(("weights", "padded"), [("bf16", 8976), ("int8", 8992), ("int4", 9024)])
def test_padding_to_tiles(weights, padded):
    sizes = plan(with_sizes(intermediate_size=8961), VlaConfig(engine=EngineConfig(weights=weights)), H200)
    assert sizes.intermediate == padded and sizes.intermediate % TILE_K == 0
    assert sizes.patch_values == 768
    assert sizes.head_first + sizes.head_rows == QWEN2_5_CODER_1_5B.vocab_size


def test_head_ends_at_the_last_action_id():
    config = VlaConfig(action=ActionConfig(last_token_id=151_664))
    sizes = plan(QWEN2_5_CODER_1_5B, config, H200)
    assert (sizes.head_first, sizes.head_rows) == (151_664 - 255, 256)
