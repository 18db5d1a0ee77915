# SPDX-License-Identifier: Apache-2.0
"""A Qwen2- or Llama-family decoder in NumPy over a paged KV cache.

Keys are stored as the projection gives them and rotated when they are used, by the rank of their slot among
the valid ones (StreamingLLM, arXiv 2309.17453): after an eviction the remaining tokens close ranks, positions
never exceed the number of slots, and no key is ever rotated twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.engines import numpy_ops as ops
from vla_edge_ros.engines.numpy_ops import Float
from vla_edge_ros.model.decoder_config import DecoderConfig
from vla_edge_ros.model.tensor_shapes import FINAL_NORM, layer_prefix
from vla_edge_ros.model.weights import Weights


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One layer's tensors; matrices ``[out, in]``."""

    input_norm: Float
    q: Float
    k: Float
    v: Float
    q_bias: Float | None
    k_bias: Float | None
    v_bias: Float | None
    o: Float
    post_attention_norm: Float
    gate: Float
    up: Float
    down: Float

    @classmethod
    def read(cls, weights: Weights, layer: int) -> LayerWeights:
        at = layer_prefix(layer)

        def bias(name: str) -> Float | None:
            return weights.tensor(f"{at}self_attn.{name}_proj.bias") if weights.config.qkv_bias else None

        return cls(
            input_norm=weights.tensor(at + "input_layernorm.weight"),
            q=weights.tensor(at + "self_attn.q_proj.weight"),
            k=weights.tensor(at + "self_attn.k_proj.weight"),
            v=weights.tensor(at + "self_attn.v_proj.weight"),
            q_bias=bias("q"),
            k_bias=bias("k"),
            v_bias=bias("v"),
            o=weights.tensor(at + "self_attn.o_proj.weight"),
            post_attention_norm=weights.tensor(at + "post_attention_layernorm.weight"),
            gate=weights.tensor(at + "mlp.gate_proj.weight"),
            up=weights.tensor(at + "mlp.up_proj.weight"),
            down=weights.tensor(at + "mlp.down_proj.weight"),
        )


class Place(NamedTuple):
    """``tokens`` slots of ``page`` from slot ``first`` on."""

    page: int
    first: int
    tokens: int


def places_in(pages: Iterable[int], fills: Iterable[int]) -> list[Place]:
    """The first ``fills`` slots of each of ``pages``."""
    return [Place(int(page), 0, int(fill)) for page, fill in zip(pages, fills, strict=True)]


# Overflow and its kin show in the hidden states, which the engine checks: no warnings beside its error.
quiet = np.errstate(all="ignore")


class NumpyDecoder:
    """Layers, the stored keys and values, and those the tokens of one chunk can see.

    ``kv``: float32 ``[layer, page, 2, kv head, slot, head size]``, keys un-rotated: what is kept.
    ``visible_keys``, ``visible_values``: ``[layer, kv head, slots, head size]``, the first ``visible`` in
    rank order, keys rotated: gathered from ``kv`` once a chunk, since ranks do not change inside one.
    """

    def __init__(self, weights: Weights, pages: int, page_slots: int):
        config = weights.config
        self.config: DecoderConfig = config
        self.layers = [LayerWeights.read(weights, layer) for layer in range(config.num_hidden_layers)]
        self.final_norm = weights.tensor(FINAL_NORM)
        layers, heads, size = config.num_hidden_layers, config.num_key_value_heads, config.head_dim
        slots = pages * page_slots
        self.kv = np.zeros((layers, pages, 2, heads, page_slots, size), np.float32)
        self.visible_keys = np.zeros((layers, heads, slots, size), np.float32)
        self.visible_values = np.zeros_like(self.visible_keys)
        self.visible = 0
        self.cosine, self.sine = ops.rope_angles(slots, size, config.rope_theta)

    @quiet
    def see(self, pages: Sequence[int] | NDArray[np.int32], fills: Sequence[int] | NDArray[np.int32]) -> None:
        """Make the valid slots of ``pages``, in rank order, what the next tokens attend to."""
        pages, fills = np.asarray(pages, np.int32), np.asarray(fills, np.int32)
        self.visible = count = int(fills.sum())
        for layer in range(self.config.num_hidden_layers):
            keys, values = ops.gather_pages(self.kv[layer], pages, fills)
            self.visible_keys[layer, :, :count] = ops.rotate(keys, self.cosine[:count], self.sine[:count])
            self.visible_values[layer, :, :count] = values

    @quiet
    def forward(self, x: Float, places: Sequence[Place]) -> Float:
        """Run ``x`` ``[t, d]`` through all layers at the next t ranks: normed hidden states ``[t, d]``.

        Their keys and values go to ``places``, in order, and become visible.
        """
        slots = np.concatenate([np.arange(place.first, place.first + place.tokens) for place in places])
        assert len(slots) == len(x), "a place for each token"
        for layer in range(self.config.num_hidden_layers):
            weights = self.layers[layer]
            normed = ops.rms_norm(x, weights.input_norm, self.config.rms_norm_eps)
            x = x + ops.linear(self._attend(layer, normed, places, slots), weights.o)
            normed = ops.rms_norm(x, weights.post_attention_norm, self.config.rms_norm_eps)
            gated = ops.swiglu(ops.linear(normed, weights.gate), ops.linear(normed, weights.up))
            x = x + ops.linear(gated, weights.down)
        self.visible += len(x)
        return ops.rms_norm(x, self.final_norm, self.config.rms_norm_eps)

    def _attend(self, layer: int, normed: Float, places: Sequence[Place], slots: NDArray[np.int64]) -> Float:
        """Project, store keys and values, attend: ``[t, d]`` -> ``[t, h * e]``."""
        weights, tokens, size = self.layers[layer], len(normed), self.config.head_dim
        ranks = slice(self.visible, self.visible + tokens)
        cosine, sine = self.cosine[ranks], self.sine[ranks]
        query = ops.linear(normed, weights.q, weights.q_bias).reshape(tokens, -1, size)
        keys, values = self._keys_and_values(weights, normed, slots)
        at = 0
        for page, first, count in places:
            self.kv[layer, page, 0, :, first : first + count] = keys[:, at : at + count]
            self.kv[layer, page, 1, :, first : first + count] = values[:, at : at + count]
            at += count
        self.visible_keys[layer, :, ranks] = ops.rotate(keys, cosine, sine)
        self.visible_values[layer, :, ranks] = values
        return ops.attention(
            ops.rotate(query, cosine[:, None], sine[:, None]),
            self.visible_keys[layer, :, : ranks.stop],
            self.visible_values[layer, :, : ranks.stop],
        )

    def _keys_and_values(
        self, weights: LayerWeights, normed: Float, slots: NDArray[np.int64]
    ) -> tuple[Float, Float]:
        """``[g, t, e]`` each, as they are kept in ``slots`` ``[t]`` of their pages; keys not rotated."""
        shape = (len(normed), -1, self.config.head_dim)
        keys = ops.linear(normed, weights.k, weights.k_bias).reshape(shape).transpose(1, 0, 2)
        values = ops.linear(normed, weights.v, weights.v_bias).reshape(shape).transpose(1, 0, 2)
        return keys, values

    def parts(self) -> dict[str, int]:
        """Bytes by part."""
        tensors = [getattr(layer, name) for layer in self.layers for name in LayerWeights.__slots__]
        return {
            "layers": sum(tensor.nbytes for tensor in tensors if tensor is not None),
            "kv_cache": self.kv.nbytes,
            "visible_kv": self.visible_keys.nbytes + self.visible_values.nbytes,
            "rope_table": self.cosine.nbytes + self.sine.nbytes,
        }
