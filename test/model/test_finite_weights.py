# SPDX-License-Identifier: Apache-2.0
"""Weights that are not finite are found in every stored type, wherever they are; none becomes an integer."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from safetensors.numpy import save_file

from vla_edge_ros.config import ActionConfig, CacheConfig, EngineConfig, FrameConfig, ModelSource, VlaConfig
from vla_edge_ros.engines.numpy_engine import NumpyEngine
from vla_edge_ros.errors import WeightsError
from vla_edge_ros.model import finite_weights
from vla_edge_ros.model.bfloat16 import bfloat16_to_float32, float32_to_bfloat16
from vla_edge_ros.model.decoder_config import TINY
from vla_edge_ros.model.finite_weights import FiniteWeights, finite, has_refused, require_finite
from vla_edge_ros.model.patch_embedding import PATCH_PROJECTION
from vla_edge_ros.model.random_weights import RandomWeights
from vla_edge_ros.model.tensor_shapes import EMBEDDING, FINAL_NORM, LM_HEAD, layer_prefix, tensor_shapes
from vla_edge_ros.model.weights import open_weights

TYPES = {"bfloat16": np.uint16, "float16": np.float16, "float32": np.float32}
BITS = {"bfloat16": np.uint16, "float16": np.uint16, "float32": np.uint32}
DOWN = layer_prefix(0) + "mlp.down_proj.weight"
BAD = {"nan": np.nan, "-nan": -np.nan, "inf": np.inf, "-inf": -np.inf}


def as_float32(type_name, elements):
    if type_name == "bfloat16":
        return bfloat16_to_float32(elements)
    return elements.astype(np.float32)


@pytest.mark.parametrize("type_name", TYPES)
@given(data=st.data())
def test_any_bits_are_judged_as_numpy_judges_their_rounding_to_bfloat16(type_name, data):
    bits = data.draw(arrays.arrays(BITS[type_name], st.integers(1, 40)))
    elements = bits.view(TYPES[type_name])
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        values = as_float32(type_name, elements).astype(np.float64)
    # Half a unit in the last place above bfloat16's largest number, rounding leaves it.
    fits = np.abs(values) < 2.0**128 - 2.0**119
    assert has_refused(type_name, elements) == (not fits.all())


@pytest.mark.parametrize("value", [3.3961775e38, -3.3961775e38])
def test_the_least_float32_that_rounding_makes_infinite_is_refused_and_its_neighbour_is_not(value):
    limit = np.float32(2.0**128 - 2.0**119) * np.sign(np.float32(value))
    assert limit == np.float32(value)
    assert has_refused("float32", np.array([0, limit], np.float32))
    assert not has_refused("float32", np.array([0, np.nextafter(limit, np.float32(0))], np.float32))


@pytest.mark.parametrize("type_name", TYPES)
@pytest.mark.parametrize("shape", [(3, 700_000), (700_003,)], ids=["matrix", "vector"])
def test_the_first_one_is_named_with_its_place_however_large_the_tensor(type_name, shape):
    """Larger than what is looked at in one piece, and the place in the last."""
    elements = np.zeros(shape, TYPES[type_name])
    require_finite("a.weight", type_name, elements)
    at = tuple(size - 2 for size in shape)
    bad = np.array([-np.inf], np.float32)
    elements[at] = float32_to_bfloat16(bad)[0] if type_name == "bfloat16" else bad[0]
    place = [5 + at[0], *at[1:]]
    with pytest.raises(WeightsError) as caught:
        require_finite("a.weight", type_name, elements, first_row=5)
    assert str(caught.value).startswith("a.weight: expected finite weights")
    assert f"got -inf at {place} of the stored {type_name} tensor" in str(caught.value)


def test_an_empty_tensor_has_none():
    assert not has_refused("float32", np.empty((0, 4), np.float32))


class Stored:
    """A few tensors in memory."""

    config = TINY

    def __init__(self, **tensors):
        self.tensors = tensors

    def has(self, name):
        return name in self.tensors

    def raw(self, name):
        return "float32", self.tensors[name]

    def tensor(self, name):
        return self.tensors[name]

    def rows(self, name, indices):
        return self.tensors[name][np.asarray(indices)]


def test_rows_are_named_by_their_place_in_the_whole_tensor():
    matrix = np.ones((9, 4), np.float32)
    matrix[7, 2] = np.nan
    weights = FiniteWeights(Stored(a=matrix))
    np.testing.assert_array_equal(weights.rows("a", [3, 8, 3]), matrix[[3, 8, 3]])
    with pytest.raises(WeightsError, match=r"a: .*got nan at \[7, 2\]"):
        weights.rows("a", np.array([8, 7]))
    for read in (weights.tensor, weights.raw):
        with pytest.raises(WeightsError, match=r"a: .*got nan at \[7, 2\]"):
            read("a")


def test_random_weights_are_not_made_twice(monkeypatch):
    stored = RandomWeights(TINY, 0)
    assert finite(stored) is stored
    checked = finite(Stored())
    assert finite(checked) is checked


# One of each kind: of the embedding a row that no action needs, of the head an action's row, a projection
# that becomes integers, a vector, a bias, and the vision projection, which is optional.
PLACES = {
    EMBEDDING: (2, 3),
    LM_HEAD: (511, 5),
    DOWN: (63, 127),
    FINAL_NORM: (9,),
    layer_prefix(0) + "self_attn.q_proj.bias": (1,),
    PATCH_PROJECTION: (4, 5),
}


@pytest.mark.parametrize("weights", ["bf16", "int8", "int4"])
@pytest.mark.parametrize("stored", [np.float16, np.float32], ids=["float16", "float32"])
@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("name", PLACES)
def test_a_checkpoint_with_one_such_weight_is_refused_by_its_place(tmp_path, name, value, stored, weights):
    rng = np.random.default_rng(5)
    shapes = {**tensor_shapes(TINY), PATCH_PROJECTION: (64, 16 * 16 * 3)}
    tensors = {each: (0.05 * rng.standard_normal(shape)).astype(stored) for each, shape in shapes.items()}
    tensors[name][PLACES[name]] = BAD[value]
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen2", **asdict(TINY)}))
    config = VlaConfig(
        model=ModelSource(path=str(tmp_path)),
        frame=FrameConfig(width=32, height=32),
        cache=CacheConfig(capacity_slots=512),
        action=ActionConfig(bins=37),
        engine=EngineConfig(name="numpy", weights=weights),
    )
    with pytest.raises(WeightsError) as caught:
        NumpyEngine(config, open_weights(config.model)).load()
    number = value.removeprefix("-") if "nan" in value else value
    assert f"{name}: " in str(caught.value) and f"got {number} at {list(PLACES[name])}" in str(caught.value)


def test_the_check_reads_in_pieces(monkeypatch):
    """A 3 GB model is read, not copied: the largest temporary is none at all."""
    import tracemalloc

    elements = np.zeros((64, 1 << 17), np.uint16)
    tracemalloc.start()
    assert not finite_weights.has_refused("bfloat16", elements)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < elements.nbytes / 16
