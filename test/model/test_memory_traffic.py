# SPDX-License-Identifier: Apache-2.0
"""The floor of a chunk against sums made by hand."""

from __future__ import annotations

import pytest

from vla_edge_ros.config import ActionConfig, CacheConfig, EngineConfig, VlaConfig
from vla_edge_ros.model.decoder_config import QWEN2_5_CODER_1_5B, TINY
from vla_edge_ros.model.memory_traffic import bytes_a_chunk, floor_ms


def test_a_chunk_reads_layers_head_rows_and_the_full_cache_once_a_token():
    """The tiny decoder: hidden 64, inner 128, 2 layers, 64 query and 32 key values a token."""
    projections = 64 * 64 + 2 * (32 * 64) + 64 * 64 + 3 * (128 * 64)
    vectors = (64 + 32 + 32) + 2 * 64  # biases of q, k and v, two norms
    numbers = 2 * (projections + vectors) + 64 + 256 * 64 + 2 * 2 * 32 * 4096
    assert bytes_a_chunk(TINY, VlaConfig()) == 8 * numbers * 2
    whole_head = VlaConfig(action=ActionConfig(head="full_vocabulary"))
    assert bytes_a_chunk(TINY, whole_head) == 8 * (numbers + (512 - 256) * 64) * 2


def test_33_ms_is_out_of_reach_of_float32_weights_on_an_embedded_board():
    """Fault A24: 1.31 G parameters without the vocabulary, 0.06 G keys and values, 8 passes."""
    embedded_board = 204.8e9  # bytes a second of a 256-bit LPDDR5-6400
    assert floor_ms(QWEN2_5_CODER_1_5B, VlaConfig(), embedded_board, bytes_a_number=4) == pytest.approx(
        8 * 4 * (1.3105e9 + 0.0587e9) / embedded_board * 1000, rel=0.01
    )
    assert floor_ms(QWEN2_5_CODER_1_5B, VlaConfig(), embedded_board) > 100
    assert floor_ms(QWEN2_5_CODER_1_5B, VlaConfig(), 4.5e12) < 6


def test_integers_are_read_in_their_own_size_and_keys_and_values_in_bfloat16():
    kept = 8 * 2 * 2 * 32 * 4096 * 2
    bf16, int8, int4 = (
        bytes_a_chunk(TINY, VlaConfig(engine=EngineConfig(weights=weights))) - kept
        for weights in ("bf16", "int8", "int4")
    )
    assert 0.5 < int8 / bf16 < 0.51, "vectors stay as they are"
    head = 8 * 256 * 64
    assert 4.125 / 16 < (int4 - head) / (bf16 - 2 * head) < 0.27
    float32 = bytes_a_chunk(TINY, VlaConfig(engine=EngineConfig(weights="int4")), bytes_a_number=4)
    assert float32 == 2 * bytes_a_chunk(TINY, VlaConfig())


def test_int8_keys_and_values_are_read_with_their_scales():
    numbers = 8 * 2 * 2 * 32 * 4096
    saved = bytes_a_chunk(TINY, VlaConfig()) - bytes_a_chunk(TINY, VlaConfig(engine=EngineConfig(kv="int8")))
    assert saved == numbers * (2 - 9 / 8)


def test_fewer_slots_and_fewer_tokens_lower_the_floor():
    small = VlaConfig(cache=CacheConfig(capacity_slots=512))
    short = VlaConfig(
        action=ActionConfig(names=("dx", "dy"), low=(-1.0,) * 2, high=(1.0,) * 2, kinds=("rate",) * 2)
    )
    assert bytes_a_chunk(TINY, small) < bytes_a_chunk(TINY, VlaConfig())
    assert bytes_a_chunk(TINY, short) == bytes_a_chunk(TINY, VlaConfig()) / 4
