# SPDX-License-Identifier: Apache-2.0
"""Every sequence layout through the cache and an engine, against one dense forward pass in float64.

The oracle shares no code with the engines: the whole sequence as rows of one matrix, attention over all of it
with a causal mask, positions counted from 0. Nothing of a chunk but its frame is kept, so what a chunk sees
is the prompt, the frames so far, its suffix and its action tokens, in this order.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sequence_layouts import LAYOUTS, config_of

from vla_edge_ros.engines.numpy_engine import NumpyEngine
from vla_edge_ros.errors import EngineError
from vla_edge_ros.kv_cache.cache import KvCache
from vla_edge_ros.kv_cache.eviction import make_policy
from vla_edge_ros.model.action_queries import action_queries
from vla_edge_ros.model.decoder_config import resolve
from vla_edge_ros.model.random_weights import RandomWeights
from vla_edge_ros.model.tensor_shapes import EMBEDDING, head_name

PINNED, SUFFIX = np.arange(40, 46), np.arange(60, 97)


def dense(weights: RandomWeights, rows: np.ndarray) -> np.ndarray:
    """Final normed hidden states ``[t, d]`` of the sequence ``rows`` ``[t, d]``, in float64."""
    config = weights.config
    size, groups = config.head_dim, config.num_attention_heads // config.num_key_value_heads
    inverse = config.rope_theta ** (-np.arange(size // 2) * 2.0 / size)
    angle = np.arange(len(rows))[:, None, None] * inverse

    def tensor(name):
        return weights.tensor(name).astype(np.float64)

    def norm(x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + config.rms_norm_eps) * tensor(name)

    def heads(x, at, name, turn):
        y = x @ tensor(f"{at}self_attn.{name}_proj.weight").T
        if config.qkv_bias:
            y = y + tensor(f"{at}self_attn.{name}_proj.bias")
        y = y.reshape(len(x), -1, size)
        if turn:
            low, high = y[..., : size // 2], y[..., size // 2 :]
            cosine, sine = np.cos(angle), np.sin(angle)
            y = np.concatenate([low * cosine - high * sine, high * cosine + low * sine], -1)
        return y

    x = rows.astype(np.float64)
    for layer in range(config.num_hidden_layers):
        at = f"model.layers.{layer}."
        normed = norm(x, at + "input_layernorm.weight")
        q, k, v = (heads(normed, at, name, name != "v") for name in "qkv")
        k, v = k.repeat(groups, axis=1), v.repeat(groups, axis=1)
        scores = np.einsum("qhe,khe->hqk", q, k) / np.sqrt(size)
        scores[:, np.triu(np.ones(scores.shape[1:], bool), 1)] = -np.inf
        share = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = np.einsum("hqk,khe->qhe", share / share.sum(-1, keepdims=True), v).reshape(len(x), -1)
        x = x + mixed @ tensor(at + "self_attn.o_proj.weight").T
        normed = norm(x, at + "post_attention_layernorm.weight")
        gate, up = (normed @ tensor(f"{at}mlp.{name}_proj.weight").T for name in ("gate", "up"))
        x = x + (gate / (1 + np.exp(-gate)) * up) @ tensor(at + "mlp.down_proj.weight").T
    return norm(x, "model.norm.weight")


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_stream_gives_what_one_dense_pass_gives(name):
    rng, config = np.random.default_rng(7), config_of(name)
    weights = RandomWeights(resolve(config.model), 0)
    engine = NumpyEngine(config, weights)
    engine.load()
    cache = KvCache.for_model(config, make_policy(config.cache), weights.config.hidden_size)
    engine.write_prompt(PINNED, cache.set_prompt(len(PINNED)))
    suffix = SUFFIX if config.layout.suffix_tokens else SUFFIX[:0]
    queries = action_queries(weights, config.layout, config.model.seed)

    seen = weights.rows(EMBEDDING, PINNED)
    for sequence in range(1, 4):
        pixels = rng.integers(0, 256, (config.frame.height, config.frame.width, 3), np.uint8)
        with cache.begin(sequence, sequence) as chunk:
            engine.embed_frame(pixels)
            frame = engine._vision.copy()
            engine.prefill(chunk.view, suffix=suffix)
            decoded = engine.decode(chunk.view, config.action.tokens, lambda _: False)
            assert engine.decode(chunk.view, config.action.tokens, lambda _: False).tokens == decoded.tokens
            chunk.commit(None)
        so_far = np.concatenate([seen, frame, weights.rows(EMBEDDING, suffix)])
        behind = queries if len(queries) else weights.rows(EMBEDDING, decoded.tokens[:-1])
        hidden = dense(weights, np.concatenate([so_far, behind]))
        logits = hidden[-config.action.tokens :] @ weights.tensor(head_name(weights.config)).T.astype(
            np.float64
        )
        logits = logits[:, -config.action.bins :]
        top, second = np.sort(logits)[:, -1], np.sort(logits)[:, -2]
        clear = top - second > 1e-4  # the others hang on rounding
        assert clear.mean() > 0.7
        first_id = weights.config.vocab_size - config.action.bins
        np.testing.assert_array_equal(
            np.array(decoded.tokens)[clear], first_id + logits.argmax(axis=1)[clear]
        )
        np.testing.assert_allclose(engine.hidden[-1], hidden[-1], rtol=0, atol=2e-4 * abs(hidden).max())
        assert len(decoded.step_ms) == config.layout.decode_steps
        if config.cache.max_frames != 0:
            seen = np.concatenate([seen, frame])
    assert len(cache.memory) == (0 if config.cache.max_frames == 0 else 3)


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_long_stream_keeps_ranks_below_the_capacity(name):
    config = config_of(name)
    cache = KvCache.for_model(config, make_policy(config.cache), 1)
    cache.set_prompt(6)
    for sequence in range(1, 60):
        with cache.begin(sequence, sequence) as chunk:
            longest = chunk.view.slots_in_use + config.layout.suffix_tokens + config.action.tokens
            assert longest <= config.cache.capacity_slots
            chunk.commit(None)
    assert len(cache.memory) == cache.room


def test_a_frame_of_another_size_and_a_suffix_that_is_too_long_are_refused():
    config = config_of("with a suffix")
    engine = NumpyEngine(config, RandomWeights(resolve(config.model), 0))
    engine.load()
    cache = KvCache.for_model(config, make_policy(config.cache), 1)
    view = cache.view(cache.incoming_block)
    engine.embed_frame(np.zeros((64, 128, 3), np.uint8))
    with pytest.raises(EngineError, match="suffix of at most 64 tokens, got 65"):
        engine.prefill(view, suffix=np.zeros(65, np.int64))
    with pytest.raises(EngineError, match=r"pages filled to \[32\], got \[31\]"):
        engine.prefill(replace(view, fills=view.fills - 1))
