# SPDX-License-Identifier: Apache-2.0
"""The decoder of ``engines/numpy_decoder.py`` in PyTorch, with gradients, over whole episodes at once.

``PolicyNetwork.forward`` computes what streaming inference computes: a frame's keys and values are made when
the frame arrives, from what was kept then; later frames see them as they were, at the ranks that close after
an eviction (keys are gathered un-rotated and rotated by rank). The rows behind a frame that give its action,
query or action tokens, are seen by nobody else. ``test/training`` holds the equality with the engines.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from vla_edge_ros.model.decoder_config import DecoderConfig
from vla_edge_ros.sequence import Decoding

AUXILIARY_VALUES = 4  # hand and target in the picture's plane, x and y each
SPOTS = 2  # hand and target, in each patch


class Kept(NamedTuple):
    """Which frames were in the cache when each frame arrived.

    ``index``: int64 ``[b, t, w]`` frame numbers in time order, of which the first ``count`` ``[b, t]`` count.
    """

    index: Tensor
    count: Tensor


class Outputs(NamedTuple):
    """``logits``: ``[b, t, action tokens, bins]`` in the order of token ids. For training only: ``auxiliary``
    ``[b, t, 4]``, and ``spots`` ``[b, t, patches, 2]``, logits of a patch showing the hand, the target.
    """

    logits: Tensor
    auxiliary: Tensor
    spots: Tensor


class Layer(nn.Module):
    """One layer's parameters and the parts of its arithmetic that look at one row."""

    def __init__(self, sizes: DecoderConfig):
        super().__init__()
        hidden, inner = sizes.hidden_size, sizes.intermediate_size
        self.input_norm = nn.RMSNorm(hidden, sizes.rms_norm_eps)
        self.post_attention_norm = nn.RMSNorm(hidden, sizes.rms_norm_eps)
        self.q = nn.Linear(hidden, sizes.q_size, bias=sizes.qkv_bias)
        self.k = nn.Linear(hidden, sizes.kv_size, bias=sizes.qkv_bias)
        self.v = nn.Linear(hidden, sizes.kv_size, bias=sizes.qkv_bias)
        self.o = nn.Linear(sizes.q_size, hidden, bias=False)
        self.gate = nn.Linear(hidden, inner, bias=False)
        self.up = nn.Linear(hidden, inner, bias=False)
        self.down = nn.Linear(inner, hidden, bias=False)

    def after_attention(self, x: Tensor, attended: Tensor) -> Tensor:
        x = x + self.o(attended)
        normed = self.post_attention_norm(x)
        return x + self.down(functional.silu(self.gate(normed)) * self.up(normed))


class PolicyNetwork(nn.Module):
    """A decoder with a patch projection in front and ``bins`` action tokens, the vocabulary's last, behind.

    ``sizes.num_key_value_heads`` must be 1: the attention of a whole episode is then one call.
    """

    def __init__(
        self,
        sizes: DecoderConfig,
        *,
        patch_values: int,
        frame_tokens: int,
        action_tokens: int,
        bins: int,
        decoding: Decoding,
    ):
        super().__init__()
        if sizes.num_key_value_heads != 1:
            raise ValueError(f"expected 1 KV head, got {sizes.num_key_value_heads}")
        self.sizes, self.decoding = sizes, decoding
        self.frame_tokens, self.action_tokens, self.bins = frame_tokens, action_tokens, bins
        hidden = sizes.hidden_size
        self.embedding = nn.Embedding(sizes.vocab_size, hidden)
        self.patch_projection = nn.Linear(patch_values, hidden, bias=False)
        self.action_queries = nn.Parameter(torch.randn(action_tokens - 1, hidden) * 0.05)
        self.layers = nn.ModuleList(Layer(sizes) for _ in range(sizes.num_hidden_layers))
        self.final_norm = nn.RMSNorm(hidden, sizes.rms_norm_eps)
        self.head = nn.Linear(hidden, sizes.vocab_size, bias=False)
        self.auxiliary = nn.Linear(hidden, AUXILIARY_VALUES)
        self.spots = nn.Linear(hidden, SPOTS)
        self._initialise()
        # In float64, as the engines make their tables.
        pairs = torch.arange(0, sizes.head_dim, 2, dtype=torch.float64)
        self.register_buffer("frequency", sizes.rope_theta ** (-pairs / sizes.head_dim), persistent=False)

    def _initialise(self) -> None:
        depth = math.sqrt(2 * self.sizes.num_hidden_layers)
        for name, parameter in self.named_parameters():
            if name.endswith(".weight") and parameter.dim() == 2:
                into_stream = name.endswith((".o.weight", ".down.weight"))
                nn.init.normal_(parameter, std=0.02 / depth if into_stream else 0.02)
        nn.init.normal_(self.embedding.weight, std=0.05)
        # A patch token as long as a text embedding; pictures have a root mean square of about 0.35.
        nn.init.normal_(
            self.patch_projection.weight, std=0.05 / (0.35 * math.sqrt(self.patch_projection.in_features))
        )

    def forward(self, prompt: Tensor, patches: Tensor, action_ids: Tensor, kept: Kept) -> Outputs:
        """``prompt``: ids ``[b, p]``; ``patches``: ``[b, t, frame tokens, patch values]`` in -1 to 1;
        ``action_ids``: ``[b, t, action tokens]``, which autoregressive decoding is taught with.
        """
        batch, frames = patches.shape[:2]
        vision = self.patch_projection(patches)
        if self.decoding is Decoding.PARALLEL:
            behind = self.action_queries.expand(batch, frames, -1, -1)
        else:
            behind = self.embedding(action_ids[..., :-1])
        x = torch.cat([vision, behind], 2)
        y = self.embedding(prompt)
        context = _Context(self, prompt.shape[1], x.shape[2], kept)
        for number, layer in enumerate(self.layers):
            x, y = context.run(layer, x, y)
            if number == self.sizes.num_hidden_layers // 2 - 1:
                spots = self.spots(
                    functional.normalize(x[:, :, : self.frame_tokens], dim=-1) * x.shape[-1] ** 0.5
                )
        hidden = self.final_norm(x[:, :, self.frame_tokens - 1 :])
        logits = functional.linear(hidden, self.head.weight[-self.bins :])
        return Outputs(logits, self.auxiliary(hidden[:, :, 0]), spots)

    def angles(self, ranks: Tensor) -> tuple[Tensor, Tensor]:
        """Cosine and sine ``[..., head size / 2]`` of ``ranks`` ``[...]``."""
        angle = ranks[..., None] * self.frequency
        return angle.cos().to(self.head.weight.dtype), angle.sin().to(self.head.weight.dtype)


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """``[..., e]``: dimension i turns with i + e / 2 (GPT-NeoX order), as ``numpy_ops.rotate``."""
    first, second = x.chunk(2, -1)
    cosine, sine = cosine.to(x.dtype), sine.to(x.dtype)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)


class _Context:
    """What every layer of one forward pass shares: ranks, masks, and where the kept frames are."""

    def __init__(self, network: PolicyNetwork, prompt_tokens: int, rows: int, kept: Kept):
        self.heads, self.size = network.sizes.num_attention_heads, network.sizes.head_dim
        self.frame_tokens, self.rows = network.frame_tokens, rows
        batch, frames, window = kept.index.shape
        device = kept.index.device
        arange = lambda n: torch.arange(n, device=device)  # noqa: E731
        self.prompt_angles = network.angles(arange(prompt_tokens))
        self.kept_angles = network.angles(prompt_tokens + arange(window * self.frame_tokens))
        own_first = prompt_tokens + self.frame_tokens * kept.count
        self.own_angles = network.angles(own_first[..., None] + arange(rows))  # [b, t, rows, e / 2]
        first_row = arange(batch)[:, None, None] * frames
        self.rows_kept = (first_row + kept.index).reshape(-1)
        valid = (arange(window) < kept.count[..., None]).repeat_interleave(self.frame_tokens, -1)
        old = torch.cat(
            [torch.ones(batch, frames, prompt_tokens, dtype=torch.bool, device=device), valid], -1
        )
        own = torch.ones(rows, rows, dtype=torch.bool, device=device).tril()
        mask = torch.cat(
            [old[:, :, None].expand(-1, -1, rows, -1), own.expand(batch, frames, rows, rows)], -1
        )
        self.padding = -mask.shape[-1] % 8  # SDPA's fast kernels want aligned rows
        self.mask = functional.pad(mask.repeat(1, 1, self.heads, 1), (0, self.padding))
        self.shape = (batch, frames, window * self.frame_tokens, self.size)

    def run(self, layer: nn.Module, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """``x`` ``[b, t, rows, d]``: frames and what is behind them; ``y`` ``[b, p, d]``: the prompt."""
        assert isinstance(layer, Layer)
        batch, frames, rows, _ = x.shape
        normed, prompt = layer.input_norm(x), layer.input_norm(y)
        keys, values = layer.k(normed), layer.v(normed)
        prompt_keys, prompt_values = rotate(layer.k(prompt), *self.prompt_angles), layer.v(prompt)
        query = layer.q(normed).view(batch, frames, rows, self.heads, self.size)
        cosine, sine = self.own_angles
        query = rotate(query, cosine[..., None, :], sine[..., None, :]).transpose(2, 3)
        attended = functional.scaled_dot_product_attention(
            query.reshape(batch, frames, self.heads * rows, self.size),
            self._seen(
                prompt_keys, rotate(self._gather(keys), *self.kept_angles), rotate(keys, cosine, sine)
            ),
            self._seen(prompt_values, self._gather(values), values),
            attn_mask=self.mask,
        )
        attended = attended.view(batch, frames, self.heads, rows, self.size).transpose(2, 3)
        x = layer.after_attention(x, attended.reshape(batch, frames, rows, -1))
        return x, layer.after_attention(y, self._attend_prompt(layer, prompt, prompt_keys, prompt_values))

    def _gather(self, values: Tensor) -> Tensor:
        """Of ``[b, t, rows, e]`` the frames' rows that each frame finds kept: ``[b, t, window slots, e]``."""
        flat = values[:, :, : self.frame_tokens].reshape(-1, self.frame_tokens * self.size)
        return flat.index_select(0, self.rows_kept).view(self.shape)

    def _seen(self, prompt: Tensor, kept: Tensor, own: Tensor) -> Tensor:
        prompt = prompt[:, None].expand(-1, kept.shape[1], -1, -1)
        return functional.pad(torch.cat([prompt, kept, own], 2), (0, 0, 0, self.padding))

    def _attend_prompt(self, layer: Layer, normed: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        batch, tokens, _ = normed.shape
        query = layer.q(normed).view(batch, tokens, self.heads, self.size).transpose(1, 2)
        query = rotate(query, *self.prompt_angles)
        shape = (batch, self.heads, tokens, self.size)
        attended = functional.scaled_dot_product_attention(
            query, keys[:, None].expand(shape), values[:, None].expand(shape), is_causal=True
        )
        return attended.transpose(1, 2).reshape(batch, tokens, -1)
