# SPDX-License-Identifier: Apache-2.0
"""The peers of the chunk benchmark: PyTorch as people run it, from easiest to fastest.

``hugging face eager``: transformers with its growing cache. ``torch static, cuda graph``: the same decoder
written plainly over a static cache (cuBLAS and SDPA), QKV and gate/up fused, captured once. ``torch compiled,
cuda graph``: that through torch.compile before the capture. All keep the tokens on the device until the last,
and compute logits of the 256 action tokens for the last row only, as this engine does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import DynamicCache

from vla_edge_ros.bench.kernels.huggingface_reference import empty_model
from vla_edge_ros.config import VlaConfig
from vla_edge_ros.engines.numpy_ops import rope_angles
from vla_edge_ros.model.action_head import action_ids
from vla_edge_ros.model.decoder_config import DecoderConfig, resolve

WARM_UP_CHUNKS = 5
DEVICE = "cuda"
EAGER_REPEATS = 20  # its chunk is twenty times longer

Chunk = Callable[[], tuple[float, list[float]]]


class Stopwatch:
    """Device time between marks, read after the chunk."""

    def __init__(self, marks: int):
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(marks)]
        self._next = 0

    def mark(self) -> None:
        self._events[self._next].record()
        self._next = (self._next + 1) % len(self._events)

    def spans_ms(self) -> list[float]:
        torch.cuda.synchronize()
        return [a.elapsed_time(b) for a, b in zip(self._events, self._events[1:], strict=False)]


class StaticDecoder:
    """A decoder over a static cache of ``past`` slots and the new ones; QKV and gate/up are fused.

    ``compiled``: the layer goes through torch.compile. It takes the residual and what the layer before it
    added apart, so that their sum can be fused with the norm behind it, as in a model compiled whole.
    """

    def __init__(
        self, model: Any, decoder: DecoderConfig, past: int, new_tokens: int, head_first: int, compiled: bool
    ):
        self.decoder, self.past = decoder, past
        self.layers = [_fused(layer, decoder.qkv_bias) for layer in model.model.layers]
        self.final_norm = model.model.norm.weight
        self.embedding = model.model.embed_tokens.weight
        self.head_first, self.head = head_first, model.lm_head.weight[head_first:]
        length = past + new_tokens
        shape = (decoder.num_hidden_layers, 2, 1, decoder.num_key_value_heads, length, decoder.head_dim)
        self.kv = torch.randn(shape, device=DEVICE, dtype=self.embedding.dtype)
        cosine, sine = rope_angles(length, decoder.head_dim, decoder.rope_theta)
        self.cosine, self.sine = (
            torch.from_numpy(np.concatenate([x, x], -1)).to(DEVICE, self.embedding.dtype)
            for x in (cosine, sine)
        )
        self.slot = torch.arange(length, device=DEVICE)
        self.layer = torch.compile(self._layer, dynamic=False) if compiled else self._layer

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """``x`` ``[tokens, hidden]`` at ``positions`` -> best action token of the last row ``[1]``."""
        cosine, sine = self.cosine[positions], self.sine[positions]
        mask = (self.slot <= positions[:, None])[None, None]
        added = torch.zeros_like(x)
        for layer, weights in enumerate(self.layers):
            keys, values = self.kv[layer, 0], self.kv[layer, 1]
            x, added = self.layer(x, added, keys, values, positions, cosine, sine, mask, *weights)
        last = self._norm(x[-1:] + added[-1:], self.final_norm)
        return F.linear(last, self.head).argmax(-1) + self.head_first

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), weight, self.decoder.rms_norm_eps)

    def _layer(
        self, x: Tensor, added: Tensor, keys: Tensor, values: Tensor, positions: Tensor, cosine: Tensor,
        sine: Tensor, mask: Tensor, norm: Tensor, qkv: Tensor, bias: Tensor | None, output: Tensor,
        post_norm: Tensor, gate_up: Tensor, down: Tensor,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        decoder = self.decoder
        x = x + added
        projected = F.linear(self._norm(x, norm), qkv, bias)
        q, k, v = projected.split([decoder.q_size, decoder.kv_size, decoder.kv_size], -1)
        q, k, v = (part.reshape(len(x), -1, decoder.head_dim).transpose(0, 1)[None] for part in (q, k, v))
        q, k = _rotate(q, cosine, sine), _rotate(k, cosine, sine)
        keys.index_copy_(2, positions, k)
        values.index_copy_(2, positions, v)
        attended = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, enable_gqa=True)
        x = x + F.linear(attended[0].transpose(0, 1).reshape(len(x), -1), output)
        gate, up = F.linear(self._norm(x, post_norm), gate_up).chunk(2, -1)
        return x, F.linear(F.silu(gate) * up, down)


def _fused(layer: Any, bias: bool) -> tuple[Tensor, ...]:
    attention, mlp = layer.self_attn, layer.mlp
    projections = (attention.q_proj, attention.k_proj, attention.v_proj)
    return (
        layer.input_layernorm.weight,
        torch.cat([p.weight for p in projections]),
        torch.cat([p.bias for p in projections]) if bias else None,
        attention.o_proj.weight,
        layer.post_attention_layernorm.weight,
        torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]),
        mlp.down_proj.weight,
    )


def _rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat([-second, first], -1) * sine


def static_chunk(static: StaticDecoder, vision: Tensor, steps: int) -> Chunk:
    """Capture prefill and decode step; one chunk replays them, the token staying on the device."""
    tokens = len(vision)
    at_prefill = torch.arange(static.past, static.past + tokens, device=DEVICE)
    position = torch.tensor([static.past + tokens], device=DEVICE)
    token = torch.zeros(1, device=DEVICE, dtype=torch.long)

    def prefill() -> None:
        token.copy_(static.forward(vision, at_prefill))
        position.fill_(static.past + tokens)

    def step() -> None:
        token.copy_(static.forward(static.embedding[token], position))
        position.add_(1)

    graphs = [_capture(prefill), _capture(step)]
    watch = Stopwatch(steps + 2)

    def chunk() -> tuple[float, list[float]]:
        watch.mark()
        graphs[0].replay()
        watch.mark()
        for _ in range(steps):
            graphs[1].replay()
            watch.mark()
        prefill_ms, *step_ms = watch.spans_ms()
        token.item()
        return prefill_ms, step_ms

    return chunk


def _capture(work: Callable[[], None]) -> torch.cuda.CUDAGraph:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), torch.no_grad():
        work()
    return graph


def eager_chunk(
    model: Any, decoder: DecoderConfig, past: int, vision: Tensor, steps: int, first: int
) -> Chunk:
    """transformers as it is used: a growing cache, a Python loop."""
    cache = DynamicCache()
    shape = (1, decoder.num_key_value_heads, past, decoder.head_dim)
    for layer in range(decoder.num_hidden_layers):
        cache.update(*(torch.randn(shape, device=DEVICE, dtype=torch.bfloat16) for _ in range(2)), layer)
    head, embedding = model.lm_head.weight[first:], model.model.embed_tokens.weight
    watch = Stopwatch(steps + 2)

    def forward(x: Tensor, at: int) -> Tensor:
        positions = torch.arange(at, at + len(x), device=DEVICE)[None]
        out = model.model(
            inputs_embeds=x[None], past_key_values=cache, position_ids=positions, use_cache=True
        )
        return F.linear(out.last_hidden_state[0, -1:], head).argmax(-1) + first

    @torch.no_grad()
    def chunk() -> tuple[float, list[float]]:
        watch.mark()
        token = forward(vision, past)
        watch.mark()
        for step in range(steps):
            token = forward(embedding[token], past + len(vision) + step)
            watch.mark()
        prefill_ms, *step_ms = watch.spans_ms()
        token.item()
        cache.crop(-(len(vision) + steps))
        return prefill_ms, step_ms

    return chunk


def measure(chunk: Chunk, repeats: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {"prefill_ms": [], "decode_step_ms": [], "chunk_ms": []}
    for repeat in range(WARM_UP_CHUNKS + repeats):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        prefill_ms, step_ms = chunk()
        chunk_ms = (time.perf_counter() - begin) * 1e3
        if repeat >= WARM_UP_CHUNKS:
            times["prefill_ms"].append(prefill_ms)
            times["decode_step_ms"].extend(step_ms)
            times["chunk_ms"].append(chunk_ms)
    return times


def run_peers(config: VlaConfig, past: int, repeats: int) -> list[tuple[str, dict[str, list[float]]]]:
    """``(name, times)`` of each peer, ``past`` slots cached before the frame's tokens."""
    decoder, steps = resolve(config.model), config.action.tokens - 1
    model = empty_model(decoder, DEVICE).to(torch.bfloat16)
    first = action_ids(config.action, decoder.vocab_size).start
    vision = 0.02 * torch.randn(config.frame.tokens, decoder.hidden_size, device=DEVICE, dtype=torch.bfloat16)
    eager = eager_chunk(model, decoder, past, vision, steps, first)
    found = [("hugging face eager", measure(eager, min(repeats, EAGER_REPEATS)))]
    del eager
    for name, compiled in (("torch static, cuda graph", False), ("torch compiled, cuda graph", True)):
        new_tokens = config.frame.tokens + config.action.tokens
        static = StaticDecoder(model, decoder, past, new_tokens, first, compiled)
        found.append((name, measure(static_chunk(static, vision, steps), repeats)))
        del static
    return found
