# SPDX-License-Identifier: Apache-2.0
"""Pages in NumPy: nothing overlaps, writing and reading agree, a lane finds what it multiplies together."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from vla_edge_ros.engines.cuda.plan.kv_page import (
    BF16_KV,
    INT8_KV,
    KV_FORMATS,
    PageOrder,
    int8_bytes,
    key_offsets,
    key_scale_offsets,
    value_offsets,
    value_scale_offsets,
)
from vla_edge_ros.model.bfloat16 import bfloat16_to_float32, round_to_bfloat16
from vla_edge_ros.model.kept_kv import kept_kv

SIZES = list(product((16, 32, 48, 64), (64, 128)))  # slots, head size
ORDERS = {"keys": PageOrder.of_keys, "values": PageOrder.of_values}


@pytest.fixture(params=SIZES, ids=str)
def size(request):
    return request.param


@pytest.mark.parametrize("offsets", [key_offsets, value_offsets, key_scale_offsets, value_scale_offsets])
def test_offsets_are_a_permutation(size, offsets):
    found = offsets(*size)
    np.testing.assert_array_equal(np.sort(found.ravel()), np.arange(found.size))
    moved = int8_bytes(found)
    np.testing.assert_array_equal(np.sort(moved.ravel()), np.arange(found.size))
    np.testing.assert_array_equal(moved // 8, found // 8, err_msg="a lane keeps its elements")


def test_a_page_is_whole_pieces_of_16_bytes(size):
    slots, head_dim = size
    assert BF16_KV.page_bytes(*size) == slots * head_dim * 2
    assert INT8_KV.page_bytes(*size) == slots * head_dim * 9 // 8
    assert all(kind.page_bytes(*size) % 16 == 0 for kind in KV_FORMATS.values())


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", KV_FORMATS)
def test_what_is_written_is_read(size, name, order):
    kind, place = KV_FORMATS[name], ORDERS[order](*size)
    plain = np.random.default_rng(0).standard_normal((2, 3, *size)).astype(np.float32)
    plain[1, 2, 5:] = np.nan
    page = place.pack(plain, kind)
    assert page.shape == (2, 3, kind.page_bytes(*size))
    expected = kept_kv(plain) if name == "int8" else round_to_bfloat16(np.nan_to_num(plain))
    expected[1, 2, 5:] = np.nan
    np.testing.assert_array_equal(place.unpack(page, kind), expected)
    np.testing.assert_array_equal(place.pack(expected, kind), page, err_msg="the same bits once more")


def registers(page, numbers):
    """``[piece, register, 2]``: int8 of each lane's 8 bytes, as int8_to_bf16 of a word and of it shifted."""
    words = page[:numbers].view(np.int8).reshape(-1, 2, 4)
    return np.stack([words[:, :, 0::2], words[:, :, 1::2]], axis=2).reshape(-1, 4, 2).astype(np.float32)


def test_a_lane_finds_its_scales_of_keys_in_one_word_and_of_values_in_one_piece(size):
    """As ``load_keys`` and ``load_values`` of kv_format.cuh; what comes out is the page of bfloat16."""
    slots, head_dim = size
    numbers, tiles = slots * head_dim, head_dim // 16
    plain = np.random.default_rng(1).standard_normal(size).astype(np.float32)
    plain *= np.exp2(np.random.default_rng(2).integers(-9, 9, size)).astype(np.float32)
    piece = np.arange(numbers // 8)

    order = PageOrder.of_keys(*size)
    page = order.pack(plain, INT8_KV)
    words = bfloat16_to_float32(page[numbers:].view(np.uint16)).reshape(-1, 2)[piece // 4]
    got = registers(page, numbers) * np.tile(words, 2)[:, :, None]
    in_bfloat16 = order.pack(kept_kv(plain), BF16_KV).view(np.uint16)
    np.testing.assert_array_equal(got, bfloat16_to_float32(in_bfloat16).reshape(-1, 4, 2))

    order = PageOrder.of_values(*size)
    page = order.pack(plain, INT8_KV)
    pieces = bfloat16_to_float32(page[numbers:].view(np.uint16)).reshape(-1, 4, 2)
    s, d, lane = piece // 32 // tiles, piece // 32 % tiles, piece % 32
    got = registers(page, numbers) * pieces[(s * (tiles // 2) + d % (tiles // 2)) * 4 + lane % 4]
    in_bfloat16 = order.pack(kept_kv(plain), BF16_KV).view(np.uint16)
    np.testing.assert_array_equal(got, bfloat16_to_float32(in_bfloat16).reshape(-1, 4, 2))
