# SPDX-License-Identifier: Apache-2.0
"""int8 keys and values: bounds of the error, exact bfloat16, and nothing that is not finite hidden."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from vla_edge_ros.model.bfloat16 import round_to_bfloat16
from vla_edge_ros.model.kept_kv import GROUP, dequantise_kv, kept_kv, quantise_kv, steps_of

heads = arrays.arrays(
    np.float32,
    st.tuples(st.integers(1, 3), st.sampled_from([64, 128])),
    elements=st.floats(width=32, allow_nan=False, allow_infinity=False),
)


def groups_of(values):
    """``[..., group, 16]``, made by hand."""
    half = values.shape[-1] // 2
    starts = range(0, half, GROUP // 2)
    parts = [(values[..., i : i + 8], values[..., half + i : half + i + 8]) for i in starts]
    return np.stack([np.concatenate(pair, axis=-1) for pair in parts], axis=-2)


@given(heads)
@settings(max_examples=60)
def test_half_a_step_off_at_most_or_less_than_one_where_it_is_cut(values):
    integers, scales = quantise_kv(values)
    steps = scales[..., None].astype(np.float64)
    off = np.abs(groups_of(kept_kv(values)).astype(np.float64) - groups_of(values))
    cut = np.abs(groups_of(values).astype(np.float64)) > 127 * steps
    assert (off <= np.where(cut, steps, steps / 2)).all() and (off < steps).all()
    assert integers.dtype == np.int8 and np.abs(integers.astype(int)).max() <= 127


@given(heads)
@settings(max_examples=60)
def test_a_scale_is_a_power_of_two_and_what_is_kept_a_bfloat16(values):
    _, scales = quantise_kv(values)
    kept = kept_kv(values)
    assert (np.frexp(scales)[0] == 0.5).all() and (scales >= np.finfo(np.float32).tiny).all()
    np.testing.assert_array_equal(round_to_bfloat16(kept), kept)
    np.testing.assert_array_equal(kept_kv(kept), kept)
    largest = np.abs(groups_of(values)).max(axis=-1)
    ordinary = largest >= 2.0**-120
    assert (64 * scales <= largest)[ordinary].all() and (largest < 128 * scales.astype(np.float64)).all()


def test_integers_and_scales_by_hand():
    values = np.zeros((1, 64), np.float32)
    values[0, [0, 1, 7, 32, 33]] = 64, 0.5, 1.5, -2.5, 3.4  # a tie goes to the even one
    values[0, [8, 9, 40]] = 127.6, -127.4, -127.6
    values[0, [16, 48]] = 1.0, -1 / 128
    integers, scales = quantise_kv(values)
    np.testing.assert_array_equal(scales, [[1, 1, 1 / 64, 2.0**-126]])
    np.testing.assert_array_equal(integers[0, [0, 1, 7, 32, 33]], [64, 0, 2, -2, 3])
    np.testing.assert_array_equal(integers[0, [8, 9, 40]], [127, -127, -127])
    np.testing.assert_array_equal(integers[0, [16, 48]], [64, 0])
    assert steps_of(values)[0, [7, 39, 47, 48, 63]].tolist() == [1, 1, 1, 1 / 64, 2.0**-126]


def test_zeros_and_the_tiniest_are_zeros():
    values = np.full((2, 64), np.float32(1e-45))
    values[1] = -0.0
    assert (kept_kv(values) == 0).all() and not np.signbit(kept_kv(values)).any()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_takes_its_group_along_and_no_other(value):
    values = np.random.default_rng(0).standard_normal((3, 128)).astype(np.float32)
    finite = kept_kv(values)
    values[1, 64 + 11] = value
    kept = kept_kv(values)
    spoiled = np.zeros((3, 128), bool)
    spoiled[1, 8:16] = spoiled[1, 72:80] = True
    np.testing.assert_array_equal(np.isnan(kept), spoiled)
    np.testing.assert_array_equal(kept[~spoiled], finite[~spoiled])


def test_leading_axes_are_free():
    values = np.random.default_rng(1).standard_normal((2, 3, 5, 64)).astype(np.float32)
    integers, scales = quantise_kv(values)
    assert scales.shape == (2, 3, 5, 4)
    np.testing.assert_array_equal(dequantise_kv(integers, scales)[1, 2, 4], kept_kv(values[1, 2, 4]))


def test_the_error_on_normal_values_beside_bfloat16s():
    values = np.random.default_rng(2).standard_normal((4000, 128)).astype(np.float32)
    size = np.linalg.norm(values)
    assert np.linalg.norm(round_to_bfloat16(values) - values) / size == pytest.approx(0.0017, rel=0.03)
    assert np.linalg.norm(kept_kv(values) - values) / size == pytest.approx(0.0073, rel=0.03)
