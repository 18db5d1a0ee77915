# SPDX-License-Identifier: Apache-2.0
"""Bins to values and back."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vla_edge_ros.config import ActionConfig
from vla_edge_ros.errors import ConfigError, EngineError
from vla_edge_ros.model.action_head import ActionHead, answer_ids

VOCABULARY = 151936
LAST = VOCABULARY - 1


def head(**sections):
    return ActionHead(ActionConfig(**sections), VOCABULARY)


def one_dimension(low, high, bins=256, kind="position", **fields):
    return head(names=("x",), low=(low,), high=(high,), kinds=(kind,), bins=bins, **fields)


def test_last_id_is_the_lowest_bin_and_the_first_action_id_the_highest():
    assert head().first_id == VOCABULARY - 256
    assert head().decode([LAST] * 8).tolist() == [-1.0] * 8
    assert head().decode([VOCABULARY - 256] * 8).tolist() == [1.0] * 8


def test_bin_centres_are_evenly_spaced_in_minus_one_to_one():
    values = [head().decode([LAST - b] * 8)[0] for b in range(256)]
    np.testing.assert_allclose(values, np.linspace(-1, 1, 256), atol=1e-15)
    assert values == sorted(values) and head().decode([LAST] * 8).dtype == np.float64


def test_each_dimension_has_its_own_range():
    low, high = tuple(range(-8, 0)), tuple(range(10, 18))
    own = head(low=tuple(map(float, low)), high=tuple(map(float, high)))
    assert own.decode([LAST] * 8).tolist() == list(low)
    assert own.decode([LAST - 255] * 8).tolist() == list(high)


@given(st.lists(st.integers(LAST - 255, LAST), min_size=8, max_size=8))
def test_encode_returns_the_tokens_that_were_decoded(tokens):
    for own in (head(), head(low=(-0.05,) * 8, high=(0.1,) * 8)):
        assert own.encode(own.decode(tokens)) == tuple(tokens)


@given(st.floats(-3, 3), st.floats(-2, -0.01), st.floats(0.01, 2), st.integers(2, 300))
def test_decoded_value_is_within_half_a_bin_of_the_clipped_one(value, low, high, bins):
    own = one_dimension(low, high, bins)
    decoded = own.decode(own.encode([value]))[0]
    assert abs(decoded - np.clip(value, low, high)) <= (high - low) / (bins - 1) / 2 * (1 + 1e-9)
    assert low <= decoded <= high


def test_values_outside_the_range_take_its_ends():
    assert one_dimension(-1.0, 1.0).encode([-7.0]) == (LAST,)
    assert one_dimension(-1.0, 1.0).encode([1e300]) == (LAST - 255,)


@pytest.mark.parametrize("token", [LAST - 256, VOCABULARY, 0, -1])
def test_token_that_is_no_action_is_refused_with_its_dimension(token):
    tokens = [LAST] * 8
    tokens[3] = token
    with pytest.raises(EngineError, match=rf"{LAST - 255} to {LAST} for dz, got {token}"):
        head().decode(tokens)


@pytest.mark.parametrize("count", [0, 7, 9])
def test_wrong_number_of_tokens_is_refused(count):
    with pytest.raises(EngineError, match=f"expected 8 action tokens, got {count}"):
        head().decode([LAST] * count)


@pytest.mark.parametrize("values", [[0.0] * 7, [float("nan")] * 8, [float("inf")] + [0.0] * 7])
def test_encode_refuses_what_is_no_action(values):
    with pytest.raises(ValueError, match="expected 8 finite action values"):
        head().encode(values)


@pytest.mark.parametrize("last", [0, 255])
def test_vocabulary_without_a_token_of_text_is_refused(last):
    with pytest.raises(ConfigError, match="action.bins must leave .* got 256 up to id 255"):
        ActionHead(ActionConfig(last_token_id=last), 256)


def test_padded_vocabulary_is_read_at_the_tokenizer_s_end():
    """OpenVLA's: 32,000 ids in a vocabulary of 32,064; bin b is token 31,999 - b."""
    padded = ActionHead(ActionConfig(last_token_id=31_999), 32_064)
    assert padded.decode([31_999] * 8).tolist() == [-1.0] * 8
    assert padded.encode([0.0] * 8) == ActionHead(ActionConfig(), 32_000).encode([0.0] * 8)
    with pytest.raises(EngineError, match="expected an action token 31744 to 31999 for terminate, got 32063"):
        padded.decode([32_063] * 8)


def test_last_token_id_outside_the_vocabulary_is_refused():
    with pytest.raises(ConfigError, match="action.last_token_id must be below .* got 32064 >= 32064"):
        ActionHead(ActionConfig(last_token_id=32_064), 32_064)


def test_engine_chooses_from_the_action_ids_or_from_all():
    assert answer_ids(ActionConfig(last_token_id=31_999), 32_064) == range(31_744, 32_000)
    assert answer_ids(ActionConfig(), 32_064) == range(31_808, 32_064)
    assert answer_ids(ActionConfig(head="full_vocabulary", last_token_id=31_999), 32_064) == range(32_064)


finite_range = st.tuples(st.floats(-2, -0.01), st.floats(0.01, 2))


@given(st.floats(-3, 3), finite_range, st.integers(3, 300))
def test_a_centre_is_within_half_a_bin_of_the_clipped_value(value, ends, bins):
    own = one_dimension(*ends, bins, bin_rule="centres")
    low, high = ends
    decoded = own.decode(own.encode([value]))[0]
    assert abs(decoded - np.clip(value, low, high)) <= (high - low) / (bins - 1) / 2 * (1 + 1e-9)
    assert low < decoded < high


def test_the_centres_have_a_zero_and_the_edges_have_none():
    every = range(LAST - 255, LAST + 1)
    centres, edges = (one_dimension(-1.0, 1.0, bin_rule=rule) for rule in ("centres", "edges"))
    assert [token for token in every if centres.decode([token])[0] == 0.0] == [LAST - 127]
    assert min(abs(edges.decode([token])[0]) for token in every) == pytest.approx(1 / 255)
    assert len({centres.decode([token])[0] for token in every}) == 255
    assert centres.decode([LAST - 255]) == centres.decode([LAST - 254])


@given(finite_range, st.integers(3, 300), st.sampled_from(["edges", "centres"]), st.floats(0.5, 3.0))
@example((-1.0, 1.0), 256, "edges", 0.5)
@example((-0.0261, 0.0402), 256, "centres", 0.5)
def test_with_a_dead_band_zero_stays_zero_and_what_is_beyond_it_stays_as_it_is(ends, bins, rule, band):
    low, high = ends
    still = one_dimension(low, high, bins, kind="rate", bin_rule=rule, dead_band_bins=band)
    plain = one_dimension(low, high, bins, kind="rate", bin_rule=rule)
    assert still.decode(still.encode([0.0]))[0] == 0.0
    width = (high - low) / (bins - 1)
    for token in range(LAST - bins + 1, LAST + 1):
        value = plain.decode([token])[0]
        if abs(value) > band * width * (1 + 1e-8):
            assert still.decode([token])[0] == value
        elif abs(value) < band * width:
            assert still.decode([token])[0] == 0.0


def test_a_position_has_no_dead_band():
    """Near 0 a joint's angle is an angle like any other."""
    own, plain = (one_dimension(-1.0, 1.0, dead_band_bins=band) for band in (3.0, 0.0))
    for token in range(LAST - 255, LAST + 1):
        assert own.decode([token]) == plain.decode([token])
