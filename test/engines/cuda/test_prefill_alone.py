# SPDX-License-Identifier: Apache-2.0
"""Frames whose action is not decoded leave on the device what a whole chunk leaves, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from sequence_layouts import LAYOUTS, config_of

from vla_edge_ros.config import EngineConfig
from vla_edge_ros.kv_cache.cache import KvCache
from vla_edge_ros.kv_cache.eviction import make_policy
from vla_edge_ros.model.decoder_config import DecoderConfig
from vla_edge_ros.model.random_weights import RandomWeights

pytestmark = pytest.mark.gpu

DECODER = DecoderConfig(
    hidden_size=192,
    intermediate_size=320,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=64,
    vocab_size=600,
)
PINNED, SUFFIX = np.arange(40, 46), tuple(range(60, 97))
FRAMES = 24  # the larger ones are evicted meanwhile


def stream(
    name: str, engine_options: dict[str, str], kind: str
) -> tuple[list[tuple[int, ...]], list[list[bytes]]]:
    """Tokens of every third frame, and the bytes of all kept pages then. ``kind``: what becomes of others.

    Every third frame carries the last action as a draft, so that what a prefill alone leaves meets a pass
    that verifies one, and plain steps behind it.
    """
    from vla_edge_ros.bench.kernels import inspection
    from vla_edge_ros.engines.cuda.engine import CudaEngine

    config, rng = config_of(name, engine=EngineConfig(**engine_options)), np.random.default_rng(9)
    device = CudaEngine(config, RandomWeights(DECODER, 0))
    device.load()
    cache = KvCache.for_model(config, make_policy(config.cache), DECODER.hidden_size)
    device.write_prompt(PINNED, cache.set_prompt(len(PINNED)))
    suffix = SUFFIX if config.layout.suffix_tokens else ()
    tokens, kept, draft = [], [], ()
    for sequence in range(FRAMES):
        pixels = rng.integers(0, 256, (config.frame.height, config.frame.width, 3), np.uint8)
        with cache.begin(sequence + 1, sequence) as chunk:
            device.embed_frame(pixels)
            acts = sequence % 3 == 2
            device.prefill(chunk.view, draft if acts else (), suffix)
            if acts or kind == "decoded":
                got = device.decode(chunk.view, 8, lambda _: False)
            elif kind == "aborted":
                most = sequence % 4
                device.decode(chunk.view, 8, lambda step_ms, most=most: len(step_ms) >= most)
            chunk.commit(None)
        if acts:
            tokens.append(got.tokens)
            draft = got.tokens if sequence % 2 else tuple(reversed(got.tokens))
            pages = cache.pages_of(cache.memory.blocks).tolist()
            kept.append([inspection.kept_bytes(device, page) for page in pages])
    device.close()
    return tokens, kept


@pytest.mark.parametrize("engine_options", [{}, {"decode_step": "kernels"}, {"kv": "int8"}], ids=str)
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_frame_without_an_action_leaves_what_one_with_an_action_leaves(name, engine_options):
    expected = stream(name, engine_options, "decoded")
    assert stream(name, engine_options, "prefill alone") == expected
    assert stream(name, engine_options, "aborted") == expected
