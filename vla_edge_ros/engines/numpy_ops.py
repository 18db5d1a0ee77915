# SPDX-License-Identifier: Apache-2.0
"""The operations of the decoder as plain NumPy functions: the specification of the CUDA kernels.

Each function has the name and argument order of its kernel, takes and returns float32, and changes nothing.
Axes: t new tokens, d hidden size, h query heads, g KV heads, e head size, r rows of a matrix,
n pages, s slots of a page, k visible keys (valid slots in rank order; the new tokens are the last).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.errors import EngineError

Float = NDArray[np.float32]


def patch_embed(pixels: NDArray[np.uint8], projection: Float) -> Float:
    """``[height, width, 3]``, ``[d, patch * patch * 3]`` -> ``[t, d]``; see ``model.patch_embedding``."""
    height, width, _ = pixels.shape
    size = round((projection.shape[1] / 3) ** 0.5)
    patches = pixels.reshape(height // size, size, width // size, size, 3).transpose(0, 2, 1, 3, 4)
    values = patches.reshape(-1, size * size * 3).astype(np.float32) / np.float32(127.5) - np.float32(1)
    return linear(values, projection)


def rms_norm(x: Float, weight: Float, epsilon: float) -> Float:
    """``[t, d]``, ``[d]`` -> ``[t, d]``: x / sqrt(mean(x**2) + epsilon) * weight (Zhang, Sennrich, 2019)."""
    mean_square = np.mean(x * x, axis=-1, keepdims=True)
    return x / np.sqrt(mean_square + np.float32(epsilon)) * weight


def linear(x: Float, weight: Float, bias: Float | None = None) -> Float:
    """``[t, d]``, ``[r, d]``, ``[r]`` -> ``[t, r]``."""
    product = x @ weight.T
    return product if bias is None else product + bias


def rope_angles(count: int, head_dim: int, theta: float) -> tuple[Float, Float]:
    """Cosines and sines ``[count, e / 2]`` of ranks 0 to ``count - 1``, made in float64.

    Rank r turns pair i by r * theta**(-2i / e) (Su et al., RoFormer). In float32 the angle of rank 4,000
    would already be wrong by 2e-4.
    """
    frequency = theta ** (-np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    angle = np.arange(count, dtype=np.float64)[:, None] * frequency
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def rotate(x: Float, cosine: Float, sine: Float) -> Float:
    """``[..., e]``, ``[..., e / 2]`` -> ``[..., e]``; dimension i pairs with i + e / 2 (GPT-NeoX order)."""
    # NumPy's loops run along the last axis: whole arrays of halves are faster than many short half rows.
    half = x.shape[-1] // 2
    first, second = np.ascontiguousarray(x[..., :half]), np.ascontiguousarray(x[..., half:])
    return np.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)


def gather_pages(kv: Float, pages: NDArray[np.int32], fills: NDArray[np.int32]) -> tuple[Float, Float]:
    """One layer's ``[page, 2, g, s, e]`` -> keys and values ``[g, k, e]`` of the valid slots, in rank order.

    A slot past its page's fill is never read, so whatever a freed page holds cannot reach a result.
    """
    rank_page, rank_slot = np.nonzero(np.arange(kv.shape[3]) < np.asarray(fills)[:, None])
    keys, values = kv[pages[rank_page], :, :, rank_slot].transpose(1, 2, 0, 3)  # from [k, 2, g, e]
    return keys, values


def attention(query: Float, keys: Float, values: Float) -> Float:
    """``[t, h, e]``, ``[g, k, e]``, ``[g, k, e]`` -> ``[t, h * e]``; query and keys rotated by their ranks.

    The last t keys are the new tokens' own. New token i sees all older keys and the new ones up to its own;
    h / g neighbouring query heads share one KV head.
    """
    t, h, e = query.shape
    g, k, _ = keys.shape
    grouped = query.reshape(t, g, h // g, e).transpose(1, 2, 0, 3).reshape(g, h // g * t, e)
    scores = (grouped * np.float32(e**-0.5)) @ keys.transpose(0, 2, 1)
    future = np.arange(t) > np.arange(t)[:, None]
    scores.reshape(g, h // g, t, k)[..., k - t :][..., future] = -np.inf
    scores -= scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores, out=scores)
    mixed = weights @ values / weights.sum(axis=-1, keepdims=True)
    return mixed.reshape(g, h // g, t, e).transpose(2, 0, 1, 3).reshape(t, h * e)


def swiglu(gate: Float, up: Float) -> Float:
    """``[t, r]``, ``[t, r]`` -> ``[t, r]``: silu(gate) * up (Shazeer, 2020)."""
    inverse_sigmoid: Float = np.float32(1) + np.exp(-gate)
    return gate / inverse_sigmoid * up


def head_argmax(hidden: Float, weight: Float, first_id: int) -> int:
    """``[d]``, ``[r, d]`` -> the token id of the largest logit, ties to the lowest; row 0 is ``first_id``.

    ``EngineError`` where a logit is not finite: the largest would say nothing.
    """
    logits = weight @ hidden
    if not np.isfinite(logits).all():
        raise EngineError("expected finite logits, got NaN or infinity from the head")
    return first_id + int(np.argmax(logits))
