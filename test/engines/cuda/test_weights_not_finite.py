# SPDX-License-Identifier: Apache-2.0
"""A weight that is not finite is refused as it loads, by tensor and place."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("cupy")

from vla_edge_ros.config import FrameConfig
from vla_edge_ros.engines.cuda.load import packed_weights
from vla_edge_ros.engines.cuda.load.packed_weights import Target, WeightLoader
from vla_edge_ros.errors import EngineError, WeightsError
from vla_edge_ros.model.bfloat16 import bfloat16_to_float32, float32_to_bfloat16
from vla_edge_ros.model.patch_embedding import PATCH_PROJECTION
from vla_edge_ros.model.random_weights import RandomWeights
from vla_edge_ros.model.tensor_shapes import EMBEDDING, FINAL_NORM, layer_prefix

TYPES = ("bfloat16", "float16", "float32")


# Weights as they load, without a device: the kernels' mark is set by hand


class InMemory:
    """Tensors of random weights in another stored type; ``tensors`` may be changed."""

    def __init__(self, decoder, type_name="bfloat16", seed=7):
        self.config, self.type_name = decoder, type_name
        self._random, self.tensors = RandomWeights(decoder, seed), {}

    def has(self, name):
        return name in self.tensors or self._random.has(name)

    def raw(self, name):
        if name not in self.tensors:
            self.tensors[name] = self.as_stored(self._random.tensor(name))
        return self.type_name, self.tensors[name]

    def as_stored(self, values):
        return float32_to_bfloat16(values) if self.type_name == "bfloat16" else values.astype(self.type_name)

    def tensor(self, name):
        _, elements = self.raw(name)
        return bfloat16_to_float32(elements) if self.type_name == "bfloat16" else elements.astype(np.float32)

    def rows(self, name, indices):
        return self.tensor(name)[np.asarray(indices)]

    def make_not_finite(self, name, at, value):
        elements = self.raw(name)[1].copy()
        if self.type_name == "bfloat16":
            elements[at] = {np.inf: 0x7F80, -np.inf: 0xFF80}.get(value, 0x7FC0)
        else:
            elements[at] = value
        self.tensors[name] = elements


class Marks:
    """A packing kernel that marks what it is told to."""

    def __init__(self, mark, calls):
        self.mark, self.calls = mark, calls

    def launch(self, stream, grid, threads, shared_bytes, *values):
        self.calls.append(values)
        self.mark()


@pytest.mark.parametrize("matrix", [(48, 64), None], ids=["matrix", "vector"])
@pytest.mark.parametrize("piece", [0, 2])
def test_a_mark_is_looked_for_in_the_piece_that_was_read(small_case, monkeypatch, matrix, piece):
    """16 rows a piece of 33 or so: the place counts from the tensor's beginning."""
    row_bytes = 64 * 4 if matrix else 4
    monkeypatch.setattr(packed_weights, "PIECE_BYTES", 17 * row_bytes)
    monkeypatch.setattr(packed_weights, "pinned_array", np.zeros)
    runtime = SimpleNamespace(
        memcpyAsync=lambda *_: None, streamSynchronize=lambda stream: None, memcpyHostToDevice=1
    )
    monkeypatch.setattr(packed_weights.cupy.cuda, "runtime", runtime)

    class Memory(dict):
        def take(self, name, size):
            return SimpleNamespace(ptr=1)

    calls = []
    kernels = {name: Marks(lambda: None, calls) for name in ("pack_tiles", "to_float")}
    loader = WeightLoader(Memory(buffer=1 << 20), kernels, InMemory(small_case.decoder), 1)

    def mark():
        if len(calls) == piece + 1:
            loader._not_finite[0] = 1

    for kernel in kernels.values():
        kernel.mark = mark
    elements = np.ones((48, 64) if matrix else 48, np.float32)
    at = (16 * piece + 3, 5) if matrix else (16 * piece + 3,)
    elements[at] = np.nan
    with pytest.raises(WeightsError, match=rf"^t: .* got nan at \[{', '.join(map(str, at))}\]"):
        loader._upload(Target("t", "buffer", 0, matrix), "float32", elements)
    assert len(calls) == piece + 1
    assert all(values[-1] == loader._not_finite.ctypes.data for values in calls)
    elements[at] = 1.0
    calls.clear()
    with pytest.raises(EngineError, match="t: the device read what is not finite"):
        loader._upload(Target("t", "buffer", 0, matrix), "float32", elements)


# Weights as they load, on a device


@pytest.fixture(scope="module", params=["bf16", "int8", "int4"])
def loaded(request):
    from vla_edge_ros.config import ActionConfig, CacheConfig, EngineConfig, VlaConfig
    from vla_edge_ros.engines.cuda.engine import CudaEngine
    from vla_edge_ros.model.decoder_config import DecoderConfig

    decoder = DecoderConfig(
        hidden_size=192,
        intermediate_size=203,
        num_hidden_layers=2,
        num_attention_heads=3,
        num_key_value_heads=1,
        head_dim=64,
        vocab_size=301,
        tie_word_embeddings=False,
    )
    config = VlaConfig(
        frame=FrameConfig(width=32, height=32),
        cache=CacheConfig(capacity_slots=1024),
        action=ActionConfig(bins=37),
        engine=EngineConfig(weights=request.param),
    )
    engine = CudaEngine(config, RandomWeights(decoder, 7))
    engine.load()
    yield engine
    engine.close()


NOT_FINITE_AT = {
    EMBEDDING: (2, 3),
    "lm_head.weight": (300, 191),
    layer_prefix(1) + "self_attn.k_proj.weight": (63, 0),
    layer_prefix(0) + "mlp.down_proj.weight": (191, 202),
    layer_prefix(1) + "mlp.up_proj.weight": (202, 128),
    layer_prefix(0) + "self_attn.q_proj.bias": (191,),
    FINAL_NORM: (9,),
}


@pytest.mark.gpu
@pytest.mark.parametrize("type_name", TYPES)
def test_a_stored_weight_that_is_not_finite_is_refused_by_name_and_place(loaded, type_name):
    """In every format that is kept, of every type that is stored; the same weights without it are taken."""

    def load(weights):
        loader = WeightLoader(loaded.buffers, loaded.kernels["loading"], weights, loaded.stream.ptr)
        loader.load(loaded.sizes, FrameConfig(width=32, height=32), 0, lambda *_: None)

    decoder = loaded.sizes.decoder
    load(InMemory(decoder, type_name))
    values = [np.nan, np.inf, -np.inf, *([3.4e38, -3.4e38] if type_name == "float32" else [])]
    for name, at in NOT_FINITE_AT.items():
        for value in values:
            weights = InMemory(decoder, type_name)
            weights.make_not_finite(name, at, value)
            with pytest.raises(WeightsError) as caught:
                load(weights)
            assert str(caught.value).startswith(f"{name}: "), value
            assert f" at {list(at)} of the stored {type_name} tensor" in str(caught.value), value
    load(InMemory(decoder, type_name))


@pytest.mark.gpu
def test_a_vision_projection_that_is_not_finite_is_refused(loaded):
    weights = InMemory(loaded.sizes.decoder, "float32")
    projection = np.zeros((192, 16 * 16 * 3), np.float32)
    projection[4, 5] = np.nan
    weights.tensors[PATCH_PROJECTION] = projection
    loader = WeightLoader(loaded.buffers, loaded.kernels["loading"], weights, loaded.stream.ptr)
    with pytest.raises(WeightsError, match=rf"{PATCH_PROJECTION}: .*got nan at \[4, 5\]"):
        loader.load(loaded.sizes, FrameConfig(width=32, height=32), 0, lambda *_: None)
