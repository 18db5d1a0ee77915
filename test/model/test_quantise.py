# SPDX-License-Identifier: Apache-2.0
"""The two integer formats: bounds of the error, what survives exactly, and whose values an engine sees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from vla_edge_ros.config import ActionConfig, CacheConfig, EngineConfig, FrameConfig, VlaConfig
from vla_edge_ros.engines.numpy_engine import NumpyEngine
from vla_edge_ros.model.bfloat16 import round_to_bfloat16
from vla_edge_ros.model.decoder_config import TINY
from vla_edge_ros.model.patch_embedding import patch_projection
from vla_edge_ros.model.quantise import (
    GROUP,
    QuantisedWeights,
    as_kept,
    dequantise_int4,
    dequantise_int8,
    format_of,
    quantise_int4,
    quantise_int8,
    round_trip,
)
from vla_edge_ros.model.random_weights import RandomWeights
from vla_edge_ros.model.tensor_shapes import EMBEDDING, FINAL_NORM, LM_HEAD, tensor_shapes
from vla_edge_ros.types import CacheView

# From where a scale cannot underflow up to where nothing overflows; and zeros.
numbers = st.floats(-(2.0**60), 2.0**60, width=32).filter(lambda x: x == 0 or abs(x) > 2.0**-100)
matrices = arrays.arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(1, 300)), elements=numbers)


def groups_of(matrix):
    return [matrix[:, first : first + GROUP] for first in range(0, matrix.shape[1], GROUP)]


@given(matrices)
@settings(max_examples=40)
def test_int8_is_at_most_half_a_step_off(matrix):
    integers, scales = quantise_int8(matrix)
    assert integers.dtype == np.int8 and scales.shape == matrix.shape[:1]
    assert np.abs(integers.astype(int)).max() <= 127
    largest = np.abs(matrix).max(axis=1, keepdims=True)
    assert (np.abs(dequantise_int8(integers, scales) - matrix) <= largest / 127 * 0.5001).all()


@given(matrices)
@settings(max_examples=40)
def test_int4_is_at_most_half_a_step_off_but_opposite_the_extreme(matrix):
    """A scale is rounded to 8 bits; a value as far out as the extreme, but opposite, loses a whole step."""
    integers, scales = quantise_int4(matrix)
    got = dequantise_int4(integers, scales)
    assert scales.shape == (len(matrix), -(-matrix.shape[1] // GROUP))
    assert integers.min() >= -8 and integers.max() <= 7
    for group, values in zip(groups_of(matrix), groups_of(got), strict=True):
        step = np.abs(group).max(axis=1, keepdims=True) / 8
        assert (np.abs(values - group) <= step * 1.05).all()
        extreme = np.where(group.max(axis=1) >= -group.min(axis=1), group.max(axis=1), group.min(axis=1))
        inside = group * np.sign(extreme)[:, None] >= -7 * step
        assert (np.abs(values - group) <= step * 0.54)[inside].all()


@given(matrices)
@settings(max_examples=40)
def test_the_extreme_of_a_group_of_bfloat16_is_kept_exactly(matrix):
    matrix = round_to_bfloat16(matrix)
    for group, values in zip(groups_of(matrix), groups_of(round_trip(matrix, "int4")), strict=True):
        np.testing.assert_array_equal(np.abs(values).max(axis=1), np.abs(group).max(axis=1))


@pytest.mark.parametrize("kept_as", ["int8", "int4"])
def test_zeros_stay_zeros_and_do_not_touch_their_neighbours(kept_as):
    matrix = np.zeros((3, 300), np.float32)
    matrix[1, 200] = 5.0
    np.testing.assert_array_equal(round_trip(matrix, kept_as)[[0, 2]], 0)
    assert round_trip(matrix, kept_as)[1, 200] == pytest.approx(5.0)
    assert np.count_nonzero(round_trip(matrix, kept_as)) == 1


@pytest.mark.parametrize("columns", [1, 127, 128, 129, 172, 256])
def test_a_group_that_ends_early_has_its_own_scale(columns):
    matrix = np.random.default_rng(columns).standard_normal((5, columns)).astype(np.float32)
    matrix[:, 128:] *= 100
    whole = round_trip(matrix, "int4")
    parts = np.concatenate([round_trip(group, "int4") for group in groups_of(matrix)], axis=1)
    np.testing.assert_array_equal(whole, parts)


def test_a_tie_of_extremes_goes_to_the_positive_one():
    integers, scales = quantise_int4(np.array([[-4.0, 4.0, 1.0]], np.float32))
    assert scales[0, 0] == -0.5
    np.testing.assert_array_equal(integers, [[7, -8, -2]])


def test_an_eighth_of_the_extreme_beats_a_seventh_of_the_largest_on_normal_weights():
    """Why the rule of Q4_0 was taken; with heavier tails the lead grows."""
    rng = np.random.default_rng(0)
    for matrix in (rng.standard_normal((500, GROUP)), rng.standard_t(4, (500, GROUP))):
        matrix = matrix.astype(np.float32)
        step = np.abs(matrix).max(axis=1, keepdims=True) / 7
        seventh = np.rint(matrix / step) * step
        assert np.linalg.norm(round_trip(matrix, "int4") - matrix) < 0.95 * np.linalg.norm(seventh - matrix)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("kept_as", ["int8", "int4"])
def test_what_is_not_finite_does_not_become_a_number(kept_as, value):
    """So that the first hidden state shows it."""
    matrix = np.ones((1, 4), np.float32)
    matrix[0, 2] = value
    with np.errstate(all="ignore"):
        assert not np.isfinite(round_trip(matrix, kept_as)[0, 0] * np.float32(0))


def test_which_tensors_are_kept_how():
    assert {format_of(name, "bf16") for name in tensor_shapes(TINY)} == {"bf16"}
    for weights in ("int8", "int4"):
        for name, shape in tensor_shapes(TINY).items():
            expected = "bf16" if len(shape) == 1 else "int8" if name in (EMBEDDING, LM_HEAD) else weights
            assert format_of(name, weights) == expected, name


@pytest.mark.parametrize("weights", ["int8", "int4"])
def test_the_view_serves_what_is_left_and_nothing_else_changes(weights):
    stored = RandomWeights(TINY, 1)
    kept = as_kept(stored, weights)
    assert isinstance(kept, QuantisedWeights) and as_kept(stored, "bf16") is stored
    for name in tensor_shapes(TINY):
        expected = round_trip(stored.tensor(name), format_of(name, weights))
        np.testing.assert_array_equal(kept.tensor(name), expected)
        kind, elements = kept.raw(name)
        assert (kind == "bfloat16") == (
            format_of(name, weights) == "bf16"
        ) and elements.shape == expected.shape
    np.testing.assert_array_equal(kept.rows(EMBEDDING, [3, 500]), kept.tensor(EMBEDDING)[[3, 500]])
    np.testing.assert_array_equal(kept.tensor(FINAL_NORM), stored.tensor(FINAL_NORM))
    assert kept.has(LM_HEAD) and not kept.has("vla.patch_projection")


@pytest.mark.parametrize("weights", ["bf16", "int8", "int4"])
def test_the_numpy_engine_computes_with_what_the_format_leaves(weights):
    """And the patch projection is that of the stored weights, whatever the format."""
    config = VlaConfig(
        frame=FrameConfig(width=32, height=32),
        cache=CacheConfig(capacity_slots=512),
        action=ActionConfig(bins=64),
        engine=EngineConfig(weights=weights),
    )
    stored = RandomWeights(TINY, 2)
    chosen = NumpyEngine(config, stored)
    given_values = NumpyEngine(
        VlaConfig(frame=config.frame, cache=config.cache, action=config.action), as_kept(stored, weights)
    )
    view = CacheView(np.array([1], np.int32), np.array([4], np.int32), 0)
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)
    for engine in (chosen, given_values):
        engine.load()
        engine._projection = patch_projection(stored, config.frame, config.model.seed)
        engine.embed_frame(pixels)
        engine.prefill(view)
    np.testing.assert_array_equal(chosen.hidden, given_values.hidden)
    fresh = NumpyEngine(config, stored)
    fresh.load()
    np.testing.assert_array_equal(
        fresh._projection, patch_projection(stored, config.frame, config.model.seed)
    )
