# SPDX-License-Identifier: Apache-2.0
"""Engines of several sizes, each loaded once; the same weights in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from vla_edge_ros.config import ActionConfig, CacheConfig, EngineConfig, FrameConfig, VlaConfig
from vla_edge_ros.engines import numpy_engine
from vla_edge_ros.engines import numpy_ops as ops
from vla_edge_ros.engines.numpy_decoder import LayerWeights, NumpyDecoder
from vla_edge_ros.model.decoder_config import DecoderConfig
from vla_edge_ros.model.kept_kv import kept_kv
from vla_edge_ros.model.quantise import as_kept
from vla_edge_ros.model.random_weights import RandomWeights
from vla_edge_ros.model.weights import Weights
from vla_edge_ros.types import CacheView

SEED = 7


@dataclass(frozen=True)
class Case:
    """A decoder and a configuration that together reach one corner of the kernels."""

    decoder: DecoderConfig
    config: VlaConfig


def _decoder(**sizes: Any) -> DecoderConfig:
    return DecoderConfig(**{"num_hidden_layers": 2, "vocab_size": 400, **sizes})


def _config(
    width: int = 128, height: int = 64, slots: int = 32, pages: int = 24, bins: int = 256, **action: Any
) -> VlaConfig:
    return VlaConfig(
        frame=FrameConfig(width=width, height=height),
        cache=CacheConfig(capacity_slots=slots * pages, page_slots=slots),
        action=ActionConfig(bins=bins, **action),
        engine=EngineConfig(draft="last_action"),
    )


CASES = {
    "one head of 64, tied, no bias": Case(
        _decoder(
            hidden_size=64,
            intermediate_size=128,
            num_attention_heads=1,
            num_key_value_heads=1,
            head_dim=64,
            qkv_bias=False,
        ),
        _config(width=128, height=128, slots=64, pages=14),
    ),
    "odd inner size, 6 vision tokens, 37 bins, untied": Case(
        _decoder(
            hidden_size=192,
            intermediate_size=172,
            num_attention_heads=6,
            num_key_value_heads=2,
            head_dim=64,
            tie_word_embeddings=False,
        ),
        _config(width=48, height=32, slots=16, bins=37),
    ),
    "7 query heads a KV head, whole vocabulary of odd size": Case(
        _decoder(
            hidden_size=896,
            intermediate_size=304,
            num_attention_heads=14,
            num_key_value_heads=2,
            head_dim=64,
            vocab_size=401,
        ),
        _config(head="full_vocabulary"),
    ),
    "heads wider than hidden, 8 a KV head, untied": Case(
        _decoder(
            hidden_size=256,
            intermediate_size=512,
            num_attention_heads=8,
            num_key_value_heads=1,
            head_dim=128,
            tie_word_embeddings=False,
            qkv_bias=False,
        ),
        _config(slots=48),
    ),
    "as many KV heads as query heads": Case(
        _decoder(
            hidden_size=320,
            intermediate_size=640,
            num_attention_heads=5,
            num_key_value_heads=5,
            head_dim=64,
        ),
        _config(),
    ),
    "one layer of Qwen2.5-Coder-1.5B": Case(
        _decoder(
            hidden_size=1536,
            intermediate_size=8960,
            num_attention_heads=12,
            num_key_value_heads=2,
            head_dim=128,
            num_hidden_layers=1,
            vocab_size=2048,
        ),
        _config(pages=128),
    ),
}

# Integer weights where they differ: a k shorter than one group, groups that end early, the largest slices, a
# head that is the embedding.
for _name, _weights in (
    ("one head of 64, tied, no bias", "int4"),
    ("odd inner size, 6 vision tokens, 37 bins, untied", "int8"),
    ("odd inner size, 6 vision tokens, 37 bins, untied", "int4"),
    ("7 query heads a KV head, whole vocabulary of odd size", "int4"),
    ("as many KV heads as query heads", "int8"),
    ("one layer of Qwen2.5-Coder-1.5B", "int8"),
    ("one layer of Qwen2.5-Coder-1.5B", "int4"),
):
    _case = CASES[_name]
    CASES[f"{_name}, {_weights}"] = replace(
        _case, config=replace(_case.config, engine=EngineConfig(weights=_weights, draft="last_action"))
    )

# Keys and values in int8: heads of 64 and 128, pages of 16 and 32 slots, and together with integer weights.
for _name in (
    "odd inner size, 6 vision tokens, 37 bins, untied",
    "7 query heads a KV head, whole vocabulary of odd size, int4",
    "one layer of Qwen2.5-Coder-1.5B",
):
    _case = CASES[_name]
    CASES[f"{_name}, int8 KV"] = replace(
        _case, config=replace(_case.config, engine=replace(_case.config.engine, kv="int8"))
    )


@pytest.fixture(scope="session")
def load_case() -> Iterator[Callable[[str], Any]]:
    """``load_case(name)`` -> the case's loaded engine, shared by all tests of the run."""
    from vla_edge_ros.engines.cuda.engine import CudaEngine

    engines: dict[str, CudaEngine] = {}

    def load(name: str) -> CudaEngine:
        if name not in engines:
            case = CASES[name]
            engines[name] = CudaEngine(case.config, RandomWeights(case.decoder, SEED))
            engines[name].load()
            if "persistent" in engines[name].steps.kinds:
                # The slower one at such sizes; without looking ahead, since tests read between steps.
                engines[name].steps.use("persistent", ahead=False)
        return engines[name]

    yield load
    for engine in engines.values():
        engine.close()


@pytest.fixture
def small_case() -> Case:
    return CASES["one head of 64, tied, no bias"]


@pytest.fixture(params=CASES)
def case_name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def case(case_name: str) -> Case:
    return CASES[case_name]


@pytest.fixture
def engine(load_case: Callable[[str], Any], case_name: str) -> Any:
    """With an empty cache: other tests leave NaN in it on purpose."""
    import cupy

    engine = load_case(case_name)
    engine.buffers.array("kv_cache", np.uint8, (engine.buffers.parts["kv_cache"],)).fill(0)
    cupy.cuda.runtime.deviceSynchronize()
    return engine


@pytest.fixture
def stored(case: Case) -> RandomWeights:
    """What the engine was given."""
    return RandomWeights(case.decoder, SEED)


@pytest.fixture
def weights(case: Case, stored: RandomWeights) -> Weights:
    """What it multiplies with."""
    return as_kept(stored, case.config.engine.weights)


class Int8KvDecoder(NumpyDecoder):
    """Keeps what the CUDA engine keeps in int8: of keys after the turn by their slot, and of values."""

    def _keys_and_values(self, weights: LayerWeights, normed: Any, slots: Any) -> tuple[Any, Any]:
        keys, values = super()._keys_and_values(weights, normed, slots)
        cosine, sine = self.cosine[slots], self.sine[slots]
        return ops.rotate(kept_kv(ops.rotate(keys, cosine, sine)), cosine, -sine), kept_kv(values)


@pytest.fixture
def load_oracle(case: Case, monkeypatch: pytest.MonkeyPatch) -> Callable[[Weights], Any]:
    """``load_oracle(weights)`` -> the case's NumPy engine, loaded; it keeps what ``engine.kv`` leaves."""

    def load(weights: Weights) -> numpy_engine.NumpyEngine:
        if case.config.engine.kv == "int8":
            monkeypatch.setattr(numpy_engine, "NumpyDecoder", Int8KvDecoder)
        oracle = numpy_engine.NumpyEngine(case.config, weights)
        oracle.load()
        return oracle

    return load


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Fresh numbers each run; a failure names the seed to repeat it with."""
    seed = int(np.random.SeedSequence().entropy % 2**32)
    request.node.user_properties.append(("seed", seed))
    print("seed", seed)
    return np.random.default_rng(seed)


@pytest.fixture
def gapped_view(case: Case, rng: np.random.Generator) -> CacheView:
    """Pages in no order, some partly filled, one free; the frame's page last."""
    pages = case.config.cache.pages
    chosen = rng.permutation(pages)[: max(3, pages - 2)].astype(np.int32)
    fills = rng.integers(1, case.config.cache.page_slots + 1, len(chosen) - 1).astype(np.int32)
    fills[-1] = case.config.frame.tokens
    return CacheView(chosen[:-1], fills, int(chosen[-1]))
