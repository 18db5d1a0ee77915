# SPDX-License-Identifier: Apache-2.0
"""Random weights against a scalar oracle in Python integers, written from the module's docstring."""

import dataclasses
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vla_edge_ros.config import ModelSource
from vla_edge_ros.errors import WeightsError
from vla_edge_ros.model.bfloat16 import round_to_bfloat16
from vla_edge_ros.model.decoder_config import PRESETS, TINY
from vla_edge_ros.model.random_weights import RandomWeights, fnv1a64, normal, tensor_key
from vla_edge_ros.model.tensor_shapes import tensor_shapes
from vla_edge_ros.model.weights import open_weights
from vla_edge_ros.splitmix64 import splitmix64_of

MASK = (1 << 64) - 1
EMBEDDING = "model.embed_tokens.weight"
RECORDED_BITS = ["0xbce4", "0xbb92", "0xbc8e", "0x3d22", "0xbc57", "0xbc86"]
RECORDED_SUM = 1041025385


def scalar_splitmix64(x: int) -> int:
    s = (x + 0x9E3779B97F4A7C15) & MASK
    s = ((s ^ (s >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    s = ((s ^ (s >> 27)) * 0x94D049BB133111EB) & MASK
    return s ^ (s >> 31)


def scalar_normal(seed: int, name: str, index: int) -> float:
    digest = 0xCBF29CE484222325
    for byte in name.encode("utf-8"):
        digest = ((digest ^ byte) * 0x100000001B3) & MASK
    key = scalar_splitmix64(seed ^ digest)
    even = index - index % 2
    u1, u2 = (((scalar_splitmix64((key + n) & MASK) >> 11) + 0.5) * 2.0**-53 for n in (even, even + 1))
    radius = math.sqrt(-2.0 * math.log(u1))
    return radius * (math.sin if index % 2 else math.cos)(2.0 * math.pi * u2)


def test_generators_give_their_published_test_values():
    assert splitmix64_of(0) == 0xE220A8397B1DCDAF  # first output of seed 0
    assert fnv1a64("") == 0xCBF29CE484222325
    assert fnv1a64("a") == 0xAF63DC4C8601EC8C
    assert fnv1a64("foobar") == 0x85944171F73967E8


@given(st.integers(0, 2**63 - 1), st.text(max_size=20), st.integers(0, 2**33))
def test_stream_equals_the_scalar_oracle_at_any_place(seed, name, start):
    made = normal(tensor_key(seed, name), start, start + 3)
    wanted = [scalar_normal(seed, name, start + i) for i in range(3)]
    np.testing.assert_allclose(made, wanted, rtol=1e-13, atol=1e-15)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_a_part_of_a_stream_equals_the_same_part_of_the_whole(low, middle, high):
    low, middle, high = sorted((low, middle, high))
    key = tensor_key(7, "x")
    joined = np.concatenate([normal(key, low, middle), normal(key, middle, high)])
    assert np.array_equal(joined, normal(key, low, high))


@pytest.mark.parametrize(
    ("name", "scale", "offset"),
    [
        (EMBEDDING, 0.02, 0.0),
        ("model.layers.1.self_attn.k_proj.bias", 0.02, 0.0),
        ("model.layers.0.input_layernorm.weight", 0.1, 1.0),
        ("model.layers.0.post_attention_layernorm.weight", 0.1, 1.0),
        ("model.norm.weight", 0.1, 1.0),
    ],
)
def test_tensor_elements_equal_the_scalar_oracle(name, scale, offset):
    made = RandomWeights(TINY, seed=3).tensor(name).reshape(-1)
    wanted = [np.float32(offset + scale * scalar_normal(3, name, i)) for i in range(16)]
    assert np.array_equal(made[:16], round_to_bfloat16(np.array(wanted)))


def test_bits_are_the_recorded_ones():
    """The same on every machine: the CUDA generator and later versions must give these."""
    kind, bits = RandomWeights(TINY, seed=0).raw(EMBEDDING)
    assert kind == "bfloat16"
    assert [hex(b) for b in bits.reshape(-1)[:6]] == RECORDED_BITS
    assert int(bits.astype(np.uint64).sum()) == RECORDED_SUM


def test_values_are_standard_normal():
    z = normal(tensor_key(1, "x"), 0, 200_000)
    assert abs(z.mean()) < 0.01 and abs(z.std() - 1) < 0.01
    assert abs((z**3).mean()) < 0.03 and abs((z**4).mean() - 3) < 0.1
    assert abs(np.corrcoef(z[0::2], z[1::2])[0, 1]) < 0.01


def test_no_uniform_number_can_reach_zero_or_one():
    for integer in (0, MASK):
        uniform = (np.float64(integer >> 11) + 0.5) * 2.0**-53
        assert 0.0 < uniform <= 1.0 and math.isfinite(math.sqrt(-2.0 * math.log(uniform)))


@given(st.lists(st.integers(0, TINY.vocab_size - 1), max_size=5))
@settings(max_examples=20)
def test_rows_equal_those_of_the_whole_tensor(indices):
    weights = RandomWeights(TINY, seed=0)
    assert np.array_equal(weights.rows(EMBEDDING, indices), weights.tensor(EMBEDDING)[indices])


def test_seeds_and_names_give_different_tensors():
    first, second = RandomWeights(TINY, seed=0), RandomWeights(TINY, seed=1)
    q, k = "model.layers.0.self_attn.k_proj.weight", "model.layers.1.self_attn.k_proj.weight"
    assert not np.array_equal(first.tensor(q), second.tensor(q))
    assert not np.array_equal(first.tensor(q), first.tensor(k))


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_presets_open_without_a_path(preset):
    weights = open_weights(ModelSource(preset=preset, seed=5))
    assert weights.config is PRESETS[preset]
    assert weights.seed == 5
    for name, shape in tensor_shapes(weights.config).items():
        if "layers" not in name or ".norm" in name or "bias" in name:
            assert weights.has(name)
            assert shape


def test_shapes_of_every_tensor_are_made():
    weights = RandomWeights(TINY, seed=0)
    for name, shape in tensor_shapes(TINY).items():
        assert weights.tensor(name).shape == shape


def test_unknown_tensor_is_refused_by_name():
    tied = dataclasses.replace(TINY, tie_word_embeddings=True)
    with pytest.raises(WeightsError, match="lm_head.weight"):
        RandomWeights(tied, seed=0).tensor("lm_head.weight")


def test_parameter_count_of_the_large_preset_is_the_published_one():
    shapes = tensor_shapes(PRESETS["qwen2.5-coder-1.5b"])
    assert sum(math.prod(shape) for shape in shapes.values()) == 1_543_714_304


def test_a_large_model_says_how_far_it_is(monkeypatch, caplog):
    from vla_edge_ros.model import random_weights

    monkeypatch.setattr(random_weights, "MANY_ELEMENTS", 1)
    monkeypatch.setattr(random_weights, "PROGRESS_S", 0.0)
    caplog.set_level("INFO", logger="vla_edge_ros.model")
    weights = RandomWeights(TINY, 0)
    for name in tensor_shapes(TINY):
        weights.tensor(name)
        weights.tensor(name)  # made again, as for another format: counted once
    first, *later = [record.getMessage() for record in caplog.records]
    assert "random weights, which takes minutes" in first and "model.path" in first
    shares = [int(re.search(r"(\d+) % made", line).group(1)) for line in later]
    assert (
        shares == sorted(shares) and shares[-1] == 100 and len(shares) == len(tensor_shapes(TINY)) - 3
    )  # two tables; the first line


def test_a_small_model_is_made_without_a_word(caplog):
    caplog.set_level("INFO", logger="vla_edge_ros.model")
    for name in tensor_shapes(TINY):
        RandomWeights(TINY, 0).tensor(name)
    assert caplog.records == []
