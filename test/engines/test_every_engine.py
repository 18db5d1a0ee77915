# SPDX-License-Identifier: Apache-2.0
"""What the scheduler takes for granted of any engine; the CUDA engine where a device answers."""

from __future__ import annotations

import time
from statistics import median

import numpy as np
import pytest

from vla_edge_ros.config import ActionConfig, CacheConfig, VlaConfig
from vla_edge_ros.engines.base import Engine
from vla_edge_ros.engines.numpy_engine import NumpyEngine
from vla_edge_ros.model.decoder_config import DecoderConfig
from vla_edge_ros.model.random_weights import RandomWeights
from vla_edge_ros.types import CacheView

DECODER = DecoderConfig(
    hidden_size=192,
    intermediate_size=384,
    num_hidden_layers=8,  # so that on a device a chunk's time is the device's
    num_attention_heads=3,
    num_key_value_heads=1,
    head_dim=64,
    vocab_size=600,
)
# Of a padded vocabulary, so that the head's rows do not end with the embedding.
CONFIG = VlaConfig(
    cache=CacheConfig(capacity_slots=512, protect_latest=2), action=ActionConfig(last_token_id=580)
)
ACTION_IDS = range(580 - 255, 581)
NOTHING_KEPT = CacheView(np.array([3], np.int32), np.array([32], np.int32), action_page=0)


@pytest.fixture(scope="module", params=["numpy", pytest.param("cuda", marks=pytest.mark.gpu)])
def engine(request) -> Engine:
    weights = RandomWeights(DECODER, seed=1)
    if request.param == "cuda":
        from vla_edge_ros.engines.cuda.engine import CudaEngine

        made = CudaEngine(CONFIG, weights)
    else:
        made = NumpyEngine(CONFIG, weights)
    made.load()
    yield made
    made.close()


def picture(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (64, 128, 3), np.uint8)


def chunk(engine: Engine, pixels: np.ndarray, view: CacheView = NOTHING_KEPT) -> tuple[int, ...]:
    engine.embed_frame(pixels)
    engine.prefill(view)
    return engine.decode(view, 8, lambda _: False).tokens


def test_the_first_frame_in_an_empty_cache_is_computed(engine):
    """Fault A48: nothing kept, no prompt, other pages never written; a token still sees itself.

    An engine raises where a hidden state is not finite.
    """
    first = chunk(engine, picture(0))
    assert len(first) == 8
    beside_another = CacheView(np.array([3, 5], np.int32), np.array([32, 32], np.int32), action_page=0)
    chunk(engine, picture(1), beside_another)
    assert chunk(engine, picture(0)) == first


@pytest.mark.parametrize("pixels", ["black", "white", "noise"])
def test_tokens_are_action_tokens_whatever_the_picture(engine, pixels):
    """Fault A44."""
    flat = {"black": 0, "white": 255}
    shown = picture(2) if pixels == "noise" else np.full((64, 128, 3), flat[pixels], np.uint8)
    assert all(token in ACTION_IDS for token in chunk(engine, shown))


def test_tokens_are_those_of_the_numpy_engine(engine):
    """Also where the action tokens end before the vocabulary does."""
    oracle = NumpyEngine(CONFIG, RandomWeights(DECODER, seed=1))
    oracle.load()
    for seed in range(4):
        wanted, got = chunk(oracle, picture(seed)), chunk(engine, picture(seed))
        assert wanted[0] == got[0]  # later ones follow from the first: one near tie would change them all


def test_a_frame_may_be_overwritten_once_it_is_embedded(engine):
    """Fault A7: no copy from the slot is still under way when the call returns."""
    expected = chunk(engine, picture(4))
    for _ in range(20):
        pixels = picture(4)
        engine.embed_frame(pixels)
        pixels[:] = 0
        engine.prefill(NOTHING_KEPT)
        assert engine.decode(NOTHING_KEPT, 8, lambda _: False).tokens == expected


def test_a_prefill_without_a_decode_behind_it_leaves_the_next_chunk_as_it_would_be(engine):
    """A refused frame is remembered so. The next one sees it, whether its action was decoded or not."""
    behind = CacheView(np.array([3, 5], np.int32), np.array([32, 32], np.int32), action_page=0)
    chunk(engine, picture(5))
    expected = chunk(engine, picture(6), behind)
    for _ in range(3):
        engine.embed_frame(picture(5))
        assert engine.prefill(NOTHING_KEPT) > 0
        assert chunk(engine, picture(6), behind) == expected
        engine.embed_frame(picture(7))  # given up behind its embedding


def test_stage_times_are_those_that_passed(engine):
    """Fault A19: timed by the host around a launch, a stage on a device would seem to take no time.

    No stage takes longer than its call, and a prefill, which runs every layer as a decode step does, is not
    charged to the steps. (That a device's time is measured on the device: cuda/test_graphs.py.)
    """
    prefills_ms, steps_ms = [], []
    for seed in range(40):
        pixels, calls_ms = picture(seed), []

        def timed(call, *arguments, calls_ms=calls_ms):
            start_ns = time.perf_counter_ns()
            result = call(*arguments)
            calls_ms.append((time.perf_counter_ns() - start_ns) / 1e6)
            return result

        vision_ms = timed(engine.embed_frame, pixels).vision_ms
        prefill_ms = timed(engine.prefill, NOTHING_KEPT)
        step_ms = timed(engine.decode, NOTHING_KEPT, 8, lambda _: False).step_ms
        reported_ms = (vision_ms, prefill_ms, sum(step_ms))
        assert all(0 < ms <= call_ms + 0.01 for ms, call_ms in zip(reported_ms, calls_ms, strict=True))
        assert len(step_ms) == 7
        prefills_ms.append(prefill_ms)
        steps_ms += step_ms
    assert median(prefills_ms) > 0.5 * median(steps_ms)
