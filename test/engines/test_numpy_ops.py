# SPDX-License-Identifier: Apache-2.0
"""Each operation against its formula, written out in loops and float64."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vla_edge_ros.engines import numpy_ops as ops
from vla_edge_ros.errors import EngineError


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_patch_embed_takes_patches_by_rows_and_in_a_patch_rows_pixels_channels():
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 3), dtype=np.uint8)
    projection = random(5, 12)
    tokens = ops.patch_embed(pixels, projection)
    assert tokens.shape == (6, 5) and tokens.dtype == np.float32
    for index, (top, left) in enumerate((y, x) for y in (0, 2) for x in (0, 2, 4)):
        patch = [
            float(pixels[top + y, left + x, channel]) / 127.5 - 1
            for y in range(2)
            for x in range(2)
            for channel in range(3)
        ]
        np.testing.assert_allclose(tokens[index], projection.astype(np.float64) @ patch, atol=1e-5)


def test_patch_embed_maps_black_to_minus_one_and_white_to_one():
    one = np.ones((1, 12), np.float32) / 12
    assert ops.patch_embed(np.zeros((2, 2, 3), np.uint8), one) == pytest.approx(-1)
    assert ops.patch_embed(np.full((2, 2, 3), 255, np.uint8), one) == pytest.approx(1)


@pytest.mark.parametrize("epsilon", [1e-6, 0.5])
def test_rms_norm_is_its_formula(epsilon):
    x, weight = random(3, 8), random(8, seed=1)
    for row, normed in zip(x.astype(np.float64), ops.rms_norm(x, weight, epsilon), strict=True):
        root = math.sqrt(sum(value * value for value in row) / 8 + epsilon)
        np.testing.assert_allclose(normed, row / root * weight, rtol=1e-5)


def test_rms_norm_of_zeros_is_zero():
    assert np.array_equal(
        ops.rms_norm(np.zeros((2, 4), np.float32), np.ones(4, np.float32), 1e-6), np.zeros((2, 4))
    )


def test_linear_adds_the_bias_to_every_row():
    x, weight, bias = random(3, 4), random(5, 4, seed=1), random(5, seed=2)
    wanted = [
        [sum(a * b for a, b in zip(row, w, strict=True)) + c for w, c in zip(weight, bias, strict=True)]
        for row in x
    ]
    np.testing.assert_allclose(ops.linear(x, weight, bias), wanted, atol=1e-5)
    np.testing.assert_allclose(ops.linear(x, weight), np.array(wanted) - bias, atol=1e-5)


def test_rope_table_is_exact_at_the_last_position_of_the_cache():
    cosine, sine = ops.rope_angles(4104, 128, 1e6)
    assert cosine.shape == sine.shape == (4104, 64)
    for pair in (0, 1, 31, 63):
        angle = 4103 * 1e6 ** (-2 * pair / 128)
        assert cosine[4103, pair] == pytest.approx(math.cos(angle), abs=1e-7)
        assert sine[4103, pair] == pytest.approx(math.sin(angle), abs=1e-7)


def test_rotation_is_a_complex_multiplication_of_the_two_halves():
    x = random(7, 2, 6)
    cosine, sine = ops.rope_angles(7, 6, 100.0)
    rotated = ops.rotate(x, cosine[:, None], sine[:, None])
    for rank in range(7):
        for i in range(3):
            turn = complex(math.cos(rank * 100 ** (-i / 3)), math.sin(rank * 100 ** (-i / 3)))
            turned = (x[rank, :, i] + 1j * x[rank, :, i + 3]) * turn
            np.testing.assert_allclose(rotated[rank, :, i], turned.real, atol=1e-5)
            np.testing.assert_allclose(rotated[rank, :, i + 3], turned.imag, atol=1e-5)


@given(st.integers(0, 4000), st.integers(0, 60), st.integers(0, 1000))
@settings(max_examples=40)
def test_product_of_rotated_vectors_depends_on_the_distance_only(start, distance, seed):
    cosine, sine = ops.rope_angles(4104, 32, 1e6)
    query, key = random(32, seed=seed), random(32, seed=seed + 1)

    def product(at):
        far = at + distance
        return ops.rotate(query, cosine[far], sine[far]) @ ops.rotate(key, cosine[at], sine[at])

    assert product(start) == pytest.approx(product(0), abs=2e-4)


@given(st.data())
@settings(max_examples=40)
def test_gather_takes_valid_slots_in_rank_order_and_no_other(data):
    count = data.draw(st.integers(0, 5))
    pages = np.array(data.draw(st.permutations(range(6)))[:count], np.int32)
    fills = np.array(data.draw(st.lists(st.integers(0, 4), min_size=count, max_size=count)), np.int32)
    kv = random(6, 2, 3, 4, 2)
    wanted = [kv[page, :, :, slot] for page, fill in zip(pages, fills, strict=True) for slot in range(fill)]
    for page in range(6):
        at = np.flatnonzero(pages == page)
        kv[page, :, :, fills[at[0]] if len(at) else 0 :] = np.nan
    keys, values = ops.gather_pages(kv, pages, fills)
    assert keys.shape == values.shape == (3, fills.sum(), 2)
    for rank, slot in enumerate(wanted):
        assert np.array_equal(keys[:, rank], slot[0]) and np.array_equal(values[:, rank], slot[1])


@pytest.mark.parametrize(
    ("t", "k", "h", "g"), [(1, 1, 1, 1), (1, 9, 4, 2), (5, 5, 4, 2), (5, 9, 6, 1), (3, 40, 4, 4)]
)
def test_attention_is_causal_grouped_softmax(t, k, h, g):
    query, keys, values = 3 * random(t, h, 6), random(g, k, 6, seed=1), random(g, k, 6, seed=2)
    result = ops.attention(query, keys, values).reshape(t, h, 6)
    for i in range(t):
        for head in range(h):
            group, seen = head // (h // g), k - t + i + 1
            scores = [
                float(query[i, head].astype(np.float64) @ keys[group, n]) / math.sqrt(6) for n in range(seen)
            ]
            weights = [math.exp(score - max(scores)) for score in scores]
            wanted = sum(w * values[group, n].astype(np.float64) for n, w in enumerate(weights)) / sum(
                weights
            )
            np.testing.assert_allclose(result[i, head], wanted, atol=1e-5)


def test_attention_leaves_its_arguments_as_they_were():
    arguments = random(3, 4, 6), random(2, 5, 6, seed=1), random(2, 5, 6, seed=2)
    before = [argument.copy() for argument in arguments]
    ops.attention(*arguments)
    assert all(np.array_equal(a, b) for a, b in zip(arguments, before, strict=True))


def test_attention_survives_scores_that_overflow_an_exponential():
    query, keys = np.full((1, 1, 4), 100, np.float32), np.full((1, 3, 4), 100, np.float32)
    keys[0, 0] = -100
    values = np.arange(12, dtype=np.float32).reshape(1, 3, 4)
    np.testing.assert_allclose(ops.attention(query, keys, values)[0], values[0, 1:].mean(axis=0))


def test_swiglu_is_its_formula():
    gate, up = random(2, 3), random(2, 3, seed=1)
    wanted = [
        [g / (1 + math.exp(-g)) * u for g, u in zip(*rows, strict=True)]
        for rows in zip(gate, up, strict=True)
    ]
    np.testing.assert_allclose(ops.swiglu(gate, up), wanted, rtol=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 1, 2])
def test_head_argmax_refuses_a_logit_that_is_not_finite_wherever_it_is(row, value):
    """The argmax of NumPy takes the first NaN for the largest, and never minus infinity."""
    weight = np.eye(3, dtype=np.float32)
    weight[row, 0] = value
    with pytest.raises(EngineError, match="expected finite logits"):
        ops.head_argmax(np.array([1, 2, 3], np.float32), weight, 100)


def test_head_argmax_gives_the_id_and_the_lowest_on_a_tie():
    weight = np.array([[0, 1], [2, 0], [2, 0], [1, 1]], np.float32)
    assert ops.head_argmax(np.array([1, 0], np.float32), weight, 100) == 101
    assert ops.head_argmax(np.array([0, -1], np.float32), weight, 0) == 1
