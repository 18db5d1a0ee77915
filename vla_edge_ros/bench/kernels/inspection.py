# SPDX-License-Identifier: Apache-2.0
"""Read and write what a loaded engine holds, in plain axes: for tests and debugging, never in a cycle.

The index maps repeat those of ``mma.cuh``; a kernel test that compares with NumPy fails where they differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cupy
import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.engines.cuda.plan.buffers import kv_layer_bytes, page_bytes
from vla_edge_ros.engines.cuda.plan.kv_page import PageOrder
from vla_edge_ros.engines.cuda.plan.projection_tiling import TILE_K
from vla_edge_ros.engines.cuda.plan.token_rows import TILE_TOKENS, TokenRows
from vla_edge_ros.model.bfloat16 import bfloat16_to_float32, float32_to_bfloat16

if TYPE_CHECKING:
    from vla_edge_ros.engines.cuda.engine import CudaEngine

Float = NDArray[np.float32]


def operand_offsets(rows: TokenRows, k: int) -> tuple[NDArray[np.int64], int]:
    """``[token, k]`` -> element in a token operand of several tokens, and how far on the rest is."""
    token, at = np.mgrid[: rows.tokens, :k]
    lane = token % TILE_TOKENS * 4 + at % 8 // 2
    column = token // TILE_TOKENS
    frame_tiles = rows.frame // TILE_TOKENS
    column = np.where(column < frame_tiles, column, 2 * column - frame_tiles)
    abreast = 2 if rows.column_tiles % 2 == 0 else 1
    pair = (at // TILE_K * rows.column_tiles + column) // abreast
    piece = (pair * 32 + lane) * abreast + column % abreast
    return piece * 4 + at % TILE_K // 8 * 2 + at % 2, 4 if abreast == 2 else 128


def read_operand(engine: CudaEngine, buffer: str, rows: TokenRows, k: int) -> Float:
    """``[tokens, k]``: float16 of a frame's tokens, bfloat16 and its rest of an action's."""
    if rows.single:
        parts = engine.buffers.array(buffer, np.uint16, (2, k)).get()
        return bfloat16_to_float32(parts).sum(0, keepdims=True)
    bits = engine.buffers.array(buffer, np.uint16, (k * rows.operand_bytes // TILE_K // 2,)).get()
    at, to_rest = operand_offsets(rows, k)
    frame = bits[at[: rows.frame]].view(np.float16).astype(np.float32)
    action = at[rows.frame :]
    split = bfloat16_to_float32(bits[action]) + bfloat16_to_float32(bits[action + to_rest])
    return np.concatenate([frame, split])


def write_operand(engine: CudaEngine, buffer: str, rows: TokenRows, values: Float) -> None:
    frame, action = values[: rows.frame], values[rows.frame :]
    bits = float32_to_bfloat16(action)
    rest = float32_to_bfloat16(action - bfloat16_to_float32(bits))
    k = values.shape[1]
    if rows.single:
        engine.buffers.array(buffer, np.uint16, (2, k)).set(np.concatenate([bits, rest]))
        cupy.cuda.runtime.deviceSynchronize()  # the engine's stream does not wait for this one
        return
    packed = np.empty(k * rows.operand_bytes // TILE_K // 2, np.uint16)
    at, to_rest = operand_offsets(rows, k)
    packed[at[: rows.frame]] = frame.astype(np.float16).view(np.uint16)
    packed[at[rows.frame :]] = bits
    packed[at[rows.frame :] + to_rest] = rest
    engine.buffers.array(buffer, np.uint16, packed.shape).set(packed)
    cupy.cuda.runtime.deviceSynchronize()


def _pages(engine: CudaEngine, layer: int, value: int) -> cupy.ndarray:
    """Bytes ``[page, kv head, page bytes]``."""
    sizes = engine.sizes
    count = kv_layer_bytes(sizes)
    whole = engine.buffers.array("kv_cache", np.uint8, (sizes.decoder.num_hidden_layers * 2 * count,))
    part = whole[(2 * layer + value) * count : (2 * layer + value + 1) * count]
    return part.reshape(sizes.pages, sizes.decoder.num_key_value_heads, -1)


def read_kv(engine: CudaEngine, layer: int) -> tuple[Float, Float]:
    """Keys and values ``[page, kv head, slot, dim]``; keys are rotated by their slot, as they are stored."""
    keys, values = (
        order.unpack(_pages(engine, layer, value).get(), engine.sizes.kv)
        for value, order in enumerate(_orders(engine))
    )
    return keys, values


def kept_bytes(engine: CudaEngine, page: int) -> bytes:
    """One page of all layers, as it lies in memory: to see whether a bit differs."""
    sizes = engine.sizes
    pitch, width = kv_layer_bytes(sizes), page_bytes(sizes)
    rows = 2 * sizes.decoder.num_hidden_layers  # keys and values of a layer
    kept = np.empty((rows, width), np.uint8)
    first = engine.buffers["kv_cache"] + page * width
    to_host = cupy.cuda.runtime.memcpyDeviceToHost
    cupy.cuda.runtime.memcpy2D(kept.ctypes.data, width, first, pitch, width, rows, to_host)
    return kept.tobytes()


def write_kv(engine: CudaEngine, layer: int, keys: Float, values: Float) -> None:
    """The whole layer, as the engine keeps it; NaN is allowed, to poison slots that nothing may read."""
    for value, (plain, order) in enumerate(zip((keys, values), _orders(engine), strict=True)):
        _pages(engine, layer, value).set(order.pack(plain, engine.sizes.kv))
    cupy.cuda.runtime.deviceSynchronize()


def _orders(engine: CudaEngine) -> tuple[PageOrder, PageOrder]:
    """Of keys, of values."""
    slots, dim = engine.sizes.page_slots, engine.sizes.decoder.head_dim
    return PageOrder.of_keys(slots, dim), PageOrder.of_values(slots, dim)


def residual(engine: CudaEngine, name: str, stream: str, partials: str) -> Float:
    """The residual stream with a projection's partial sums added, in order: ``[token, hidden]``."""
    variant = engine.sizes.passes[name]
    shape = (variant.tokens, engine.sizes.decoder.hidden_size)
    split_k = variant.output.split_k if partials == "output_partials" else variant.down.split_k
    total = engine.buffers.array(f"{name}_{stream}", np.float32, shape).get()
    for part in engine.buffers.array(f"{name}_{partials}", np.float32, (split_k, *shape)).get():
        total = total + part
    return total


def hidden(engine: CudaEngine, name: str) -> Float:
    """Normed hidden states ``[token, hidden]`` of the last ``prefill`` or ``decode`` pass."""
    decoder = engine.sizes.decoder
    x = residual(engine, name, "residual_a", "down_partials").astype(np.float64)
    norm_count = 2 * decoder.num_hidden_layers + 1
    norms = engine.buffers.array("norms", np.float32, (norm_count, decoder.hidden_size))
    scale = 1 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + decoder.rms_norm_eps)
    return (x * scale * norms[-1].get()).astype(np.float32)


def logits(engine: CudaEngine) -> Float:
    """``[head rows]`` of the last decode step, or of the last prefill without drafts."""
    return engine.buffers.array("logits", np.float32, (engine.sizes.head_rows,)).get()


def draft_logits(engine: CudaEngine) -> Float:
    """``[rows, head rows]`` of the last pass with drafts; behind a frame row 0 is that of its last token."""
    shape = (engine.sizes.draft_tokens, engine.sizes.head_rows)
    return engine.buffers.array("draft_logits", np.float32, shape).get()
