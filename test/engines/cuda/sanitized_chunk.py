# SPDX-License-Identifier: Apache-2.0
"""What test_sanitizer.py runs under compute-sanitizer: a small model, a prompt, three chunks.

Each runs once more with a draft that is accepted in part. The frames between them are written, not
computed: under the tool a launch takes long.
"""

from __future__ import annotations

import sys

import numpy as np

from vla_edge_ros.bench.kernels import inspection
from vla_edge_ros.config import ActionConfig, CacheConfig, EngineConfig, FrameConfig, VlaConfig
from vla_edge_ros.engines.cuda.engine import CudaEngine
from vla_edge_ros.model.decoder_config import DecoderConfig
from vla_edge_ros.model.random_weights import RandomWeights
from vla_edge_ros.types import CacheView


def main(head_dim: int, weights: str, kv: str) -> None:
    decoder = DecoderConfig(
        hidden_size=192,
        intermediate_size=172,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=head_dim,
        vocab_size=303,
    )
    config = VlaConfig(
        frame=FrameConfig(width=48, height=32),
        cache=CacheConfig(capacity_slots=16 * 40, page_slots=16),
        action=ActionConfig(bins=37),
        engine=EngineConfig(weights=weights, kv=kv, decode_step="persistent", draft="last_action"),
    )
    engine = CudaEngine(config, RandomWeights(decoder, 0))
    engine.load()
    rng, tokens_a_frame = np.random.default_rng(0), 6
    shape = (40, 2, 16, head_dim)
    for layer in range(2):
        keys, values = np.full(shape, np.nan, np.float32), np.full(shape, np.nan, np.float32)
        for kept in (keys, values):
            kept[4:, :, :tokens_a_frame] = rng.standard_normal((36, 2, tokens_a_frame, head_dim), np.float32)
        inspection.write_kv(engine, layer, keys, values)
    engine.write_prompt(np.arange(21), [3, 1])
    for last in (4, 20, 38):
        pages = np.array([3, 1, *range(4, last + 1)], np.int32)
        fills = np.array([16, 5, *[tokens_a_frame] * (len(pages) - 2)], np.int32)
        view = CacheView(pages, fills, 0)
        pixels = np.full((32, 48, 3), last, np.uint8)
        engine.embed_frame(pixels)
        engine.prefill(view)
        tokens = engine.decode(view, 8, lambda _: False).tokens
        # The sixth draft token is rejected: a pass behind the frame, a verification pass, a plain step.
        draft = [*tokens[:5], *(303 - 37 + (token - 265) % 37 for token in tokens[5:])]
        engine.embed_frame(pixels)
        engine.prefill(view, draft)
        decoded = engine.decode(view, 8, lambda _: False)
        assert decoded.tokens == tokens and 0 < len(decoded.step_ms) < 7
    engine.close()
    print("completed")


main(int(sys.argv[1]), *sys.argv[2:])
