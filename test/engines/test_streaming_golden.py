# SPDX-License-Identifier: Apache-2.0
"""Engines against the network that training runs, over whole episodes with evictions, without PyTorch.

``test/golden/make_streaming.py`` made the logits: all frames of an episode at once, from kept sets of several
policies. Here the frames come one by one through the cache, which a replayed policy empties in the same way.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vla_edge_ros.config import ActionConfig, CacheConfig, ModelSource, VlaConfig
from vla_edge_ros.engines.numpy_engine import NumpyEngine
from vla_edge_ros.kv_cache.cache import KvCache
from vla_edge_ros.kv_cache.frame_memory import FrameMemory
from vla_edge_ros.model.decoder_config import DecoderConfig
from vla_edge_ros.model.random_weights import RandomWeights
from vla_edge_ros.sequence import Decoding

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "streaming.npz")
BINS = 255
SIZES = DecoderConfig(
    **{name.removeprefix("size_"): GOLDEN[name].item() for name in GOLDEN.files if name.startswith("size_")}
)
FIRST_ID = SIZES.vocab_size - BINS


class Replayed:
    """Forgets what the stored kept sets forget."""

    descriptor = "none"

    def __init__(self, index: np.ndarray, count: np.ndarray):
        self._kept = [set((row[:n] + 1).tolist()) for row, n in zip(index, count, strict=True)]

    def _gone(self, memory: FrameMemory) -> list[int]:
        newest = int(memory.sequences[-1])
        after = self._kept[newest] if newest < len(self._kept) else set(memory.sequences[1:].tolist())
        return [i for i, sequence in enumerate(memory.sequences.tolist()) if sequence not in after]

    def excess(self, memory: FrameMemory, room: int) -> int:
        return len(self._gone(memory)) if len(memory) > room else 0

    def choose(self, memory: FrameMemory) -> int:
        return self._gone(memory)[0]


def config_of(decoding: Decoding, frames: int) -> VlaConfig:
    layout = VlaConfig().layout
    slots = (layout.fixed_pages + frames * layout.frame_pages) * layout.page_slots
    return VlaConfig(
        model=ModelSource(seed=int(GOLDEN["seed"])),
        cache=CacheConfig(capacity_slots=slots, protect_latest=1),
        action=ActionConfig(
            names=("vx", "vy"),
            low=(-1, -1),
            high=(1, 1),
            kinds=("rate", "rate"),
            bins=BINS,
            decoding=decoding.value,
        ),
    )


@pytest.fixture(params=["fifo", "bridge", "reservoir", "novelty"])
def policy_name(request):
    return request.param


@pytest.fixture(params=list(Decoding))
def decoding(request):
    return request.param


def streamed(engine, config, policy_name):
    """Yields ``(frame, view)`` of each chunk behind its prefill, and commits it afterwards."""
    index, count = GOLDEN[f"{policy_name}_index"], GOLDEN[f"{policy_name}_count"]
    cache = KvCache.for_model(config, Replayed(index, count), SIZES.hidden_size)
    assert cache.room == index.shape[1]
    engine.write_prompt(GOLDEN["prompt"], cache.set_prompt(len(GOLDEN["prompt"])))
    for frame, blocks in enumerate(GOLDEN["blocks"]):
        assert (cache.memory.sequences - 1).tolist() == index[frame, : count[frame]].tolist()
        engine.embed_frame(blocks.repeat(8, 0).repeat(8, 1))
        with cache.begin(frame + 1, frame) as chunk:
            engine.prefill(chunk.view)
            yield frame, chunk.view
            chunk.commit(np.zeros(0, np.float32))


def test_the_stored_streams_evict(policy_name):
    index, count = GOLDEN[f"{policy_name}_index"], GOLDEN[f"{policy_name}_count"]
    assert count[-1] == index.shape[1] < len(index) - 4
    others = [GOLDEN[f"{name}_index"] for name in ("fifo", "bridge", "reservoir") if name != policy_name]
    assert all(not np.array_equal(index, other) for other in others)


def test_the_numpy_engine_gives_the_logits_of_training(policy_name, decoding):
    config = config_of(decoding, GOLDEN[f"{policy_name}_index"].shape[1])
    engine = NumpyEngine(config, RandomWeights(SIZES, config.model.seed))
    engine.load()
    wanted = GOLDEN[f"{policy_name}_{decoding.value}_logits"]
    for frame, view in streamed(engine, config, policy_name):
        parallel = decoding is Decoding.PARALLEL
        rows = [engine.logits()[-2:] if parallel else engine.logits()[-1:]]
        tokens = engine.decode(view, 2, lambda step_ms: False).tokens
        rows += [] if parallel else [engine.logits()[-1:]]
        assert np.abs(np.concatenate(rows) - wanted[frame]).max() <= 1e-5
        assert tokens == tuple(GOLDEN[f"{policy_name}_{decoding.value}_tokens"][frame])
    engine.close()


@pytest.mark.gpu
def test_the_cuda_engine_gives_the_tokens_of_training(policy_name, decoding):
    """Within the rounding of bfloat16: its tokens are among the likeliest of the stored logits."""
    from vla_edge_ros.engines.cuda.engine import CudaEngine

    config = config_of(decoding, GOLDEN[f"{policy_name}_index"].shape[1])
    engine = CudaEngine(config, RandomWeights(SIZES, config.model.seed))
    engine.load()
    wanted = GOLDEN[f"{policy_name}_{decoding.value}_logits"]
    slack = 0.1 * wanted.std()
    for frame, view in streamed(engine, config, policy_name):
        first, second = engine.decode(view, 2, lambda step_ms: False).tokens
        rows = wanted[frame]
        assert rows[0, first - FIRST_ID] >= rows[0].max() - slack
        same_text = decoding is Decoding.PARALLEL or first == FIRST_ID + rows[0].argmax()
        if same_text:
            assert rows[1, second - FIRST_ID] >= rows[1].max() - slack
    engine.close()
