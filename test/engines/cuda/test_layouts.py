# SPDX-License-Identifier: Apache-2.0
"""Every sequence layout on the device, beside the NumPy engine, which a dense forward pass has judged."""

from __future__ import annotations

import numpy as np
import pytest
from sequence_layouts import LAYOUTS, config_of

from vla_edge_ros.config import ActionConfig, CacheConfig, EngineConfig, VlaConfig
from vla_edge_ros.engines.numpy_engine import NumpyEngine
from vla_edge_ros.errors import EngineError
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


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


@pytest.mark.parametrize(
    "engine_options", [{}, {"draft": "none"}, {"weights": "int8", "kv": "int8"}], ids=str
)
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_stream_gives_what_the_numpy_engine_gives(name, engine_options):
    """Both engines are fed the device's tokens, so that one near tie does not part them for good."""
    from vla_edge_ros.bench.kernels import inspection
    from vla_edge_ros.engines.cuda.engine import CudaEngine

    config = config_of(name, engine=EngineConfig(**engine_options))
    weights, rng = RandomWeights(DECODER, 0), np.random.default_rng(5)
    oracle, device = NumpyEngine(config, weights), CudaEngine(config, weights)
    cache = KvCache.for_model(config, make_policy(config.cache), DECODER.hidden_size)
    suffix = SUFFIX if config.layout.suffix_tokens else ()
    pages = cache.set_prompt(len(PINNED))
    for engine in (oracle, device):
        engine.load()
        engine.write_prompt(PINNED, pages)
    device.steps.use(device.steps.kind, ahead=False)  # so that logits can be read between steps
    agree, draft = [], ()
    for sequence in range(1, 16):  # the larger frames are evicted meanwhile
        pixels = rng.integers(0, 256, (config.frame.height, config.frame.width, 3), np.uint8)
        with cache.begin(sequence, sequence) as chunk:
            visions = [engine.embed_frame(pixels).embedding for engine in (oracle, device)]
            assert cosine(*visions) > 0.9999
            for engine in (oracle, device):
                engine.prefill(chunk.view, draft, suffix)
            expected = oracle.decode(chunk.view, 8, lambda _: False)
            got = device.decode(chunk.view, 8, lambda _: False)
            agree += [a == b for a, b in zip(expected.tokens, got.tokens, strict=True)]
            if config.layout.decode_steps == 0:
                assert got.step_ms == ()
                assert cosine(inspection.draft_logits(device)[:8], oracle.logits()[-8:]) > 0.999
            chunk.commit(None)
        draft = got.tokens if sequence % 2 else tuple(reversed(got.tokens))
    assert np.mean(agree) > (0.6 if engine_options.get("weights") == "int8" else 0.85)
    device.close()


@pytest.mark.parametrize("name", LAYOUTS)
def test_drafts_leave_every_bit_of_every_layout_as_it_is(name):
    from vla_edge_ros.bench.kernels import inspection
    from vla_edge_ros.engines.cuda.engine import CudaEngine

    config, rng = config_of(name, engine=EngineConfig()), np.random.default_rng(6)
    weights = RandomWeights(DECODER, 0)
    device = CudaEngine(config, weights)
    device.load()
    cache = KvCache.for_model(config, make_policy(config.cache), DECODER.hidden_size)
    device.write_prompt(PINNED, cache.set_prompt(len(PINNED)))
    suffix = SUFFIX if config.layout.suffix_tokens else ()
    for sequence in range(1, 6):
        pixels = rng.integers(0, 256, (config.frame.height, config.frame.width, 3), np.uint8)
        with cache.begin(sequence, sequence) as chunk:
            seen = []
            device.embed_frame(pixels)
            device.prefill(chunk.view, (), suffix)
            plain = device.decode(chunk.view, 8, lambda _: False).tokens
            for draft in ((), plain, (*plain[:3], 0, *plain[4:])):
                device.embed_frame(pixels)
                device.prefill(chunk.view, draft, suffix)
                assert device.decode(chunk.view, 8, lambda _: False).tokens == plain
                written = [*chunk.view.frame_pages.tolist(), chunk.view.action_page]
                seen.append([inspection.kept_bytes(device, page) for page in written])
            assert seen[0][:-1] == seen[1][:-1] == seen[2][:-1]  # the frame's pages
            chunk.commit(None)
    device.close()


def test_action_tokens_that_no_pass_has_room_for_are_refused():
    from vla_edge_ros.engines.cuda.engine import CudaEngine

    names = tuple(f"joint_{index}" for index in range(40))
    action = ActionConfig(
        names=names, low=(-1.0,) * 40, high=(1.0,) * 40, kinds=("rate",) * 40, decoding="parallel"
    )
    config = VlaConfig(cache=CacheConfig(page_slots=64), action=action)
    with pytest.raises(EngineError, match="at most 32 action tokens for action.decoding parallel, got 40"):
        CudaEngine(config, RandomWeights(DECODER, 0)).load()
