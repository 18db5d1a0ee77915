# SPDX-License-Identifier: Apache-2.0
"""Whether and how a decode step's layers fit one persistent kernel: the shared memory of decode_layers.cu.

A block a multiprocessor, whose eight warps own a ring of weight tiles each. The blocks that attend keep their
pages beside the rings.
"""

from __future__ import annotations

from vla_edge_ros.engines.cuda.plan.projection_tiling import GEMM_WARPS, ProjectionTiling
from vla_edge_ros.engines.cuda.plan.sizes import PersistentDecode, Sizes
from vla_edge_ros.engines.cuda.plan.weight_format import TILE_BYTES, TILE_ROWS

# Tiles a copy, most copies in flight, and those that a phase's end defers until it has arrived at its grid
# barrier, by bits of a weight: measured on an H200 (docs/explanation/engine-log.md).
STAGE_TILES = {16: 6, 8: 3, 4: 3}
MOST_STAGES = {16: 4, 8: 8, 4: 8}
DEFERRED_STAGES = {16: 2, 8: 0, 4: 0}
# Row tiles a block of gate/up that are prefetched into the L2 while attention runs, at most a quarter of it.
# Integers gain nothing by it: there gate/up does not wait for the memory.
PREFETCH_UNITS = {16: 2, 8: 0, 4: 0}
FEWEST_STAGES = 2
MOST_COLUMN_WORDS = 96  # registers a lane for the columns of one projection
_BATCH_UNITS = 16
_STATIC_SHARED_BYTES = 4096  # of merge_splits.cuh, at most


def plan_persistent(sizes: Sizes) -> PersistentDecode | str:
    """The kernel's sizes, or why a step of these sizes cannot be one kernel."""
    device, decoder, step, bits = sizes.device, sizes.decoder, sizes.decode, sizes.weights.bits
    attention = step.attention
    units = attention.action_splits * decoder.num_key_value_heads
    if attention.row_warps != 1 or attention.action_splits * attention.key_warps < sizes.pages:
        return f"{sizes.pages} pages of {decoder.group_size} query heads, more than one page a warp"
    if units > device.multiprocessors:
        return f"{units} shares of the attention on {device.multiprocessors} multiprocessors"
    tilings = (step.qkv, step.output, step.gate_up, step.down)
    if any(tiling.split_k > device.multiprocessors for tiling in tilings):
        return f"split-K of a projection above {device.multiprocessors} multiprocessors"
    slices = (_slice_tiles(sizes, k, tiling.split_k) for k, tiling in _k_of(sizes))
    columns = max(slices) * sizes.weights.tile_k // 8
    if columns > MOST_COLUMN_WORDS:
        return f"{columns} registers a lane for the columns of one projection, at most {MOST_COLUMN_WORDS}"
    stage_tiles = STAGE_TILES[bits]
    stage_bytes = GEMM_WARPS * sizes.weights.stage_bytes(stage_tiles)
    fixed = _fixed_shared_bytes(sizes)
    left = device.shared_bytes - _STATIC_SHARED_BYTES - fixed
    pages = attention.key_warps * 2 * sizes.kv.page_bytes(sizes.page_slots, decoder.head_dim)
    stages = min(MOST_STAGES[bits], (left - pages) // stage_bytes)
    if stages < FEWEST_STAGES:
        return f"{device.shared_bytes} bytes of shared memory a block, too few for rings beside {pages}"
    deferred = min(DEFERRED_STAGES[bits], stages - 1)
    shared = fixed + pages + stage_bytes * stages
    return PersistentDecode(
        device.multiprocessors, stage_tiles, stages, deferred, _prefetch_units(sizes), fixed, shared
    )


def _k_of(sizes: Sizes) -> tuple[tuple[int, ProjectionTiling], ...]:
    hidden, step = sizes.decoder.hidden_size, sizes.decode
    return (
        (hidden, step.qkv),
        (sizes.decoder.q_size, step.output),
        (hidden, step.gate_up),
        (sizes.intermediate, step.down),
    )


def _slice_tiles(sizes: Sizes, k: int, split_k: int) -> int:
    tiles = -(-sizes.weights.k_tiles(k) // split_k)
    return -(-tiles // GEMM_WARPS)


def _prefetch_units(sizes: Sizes) -> int:
    device, weights = sizes.device, sizes.weights
    row_tile = weights.k_tiles(sizes.decoder.hidden_size) * TILE_BYTES
    return min(PREFETCH_UNITS[weights.bits], device.l2_bytes // 4 // (row_tile * device.multiprocessors))


def _fixed_shared_bytes(sizes: Sizes) -> int:
    """``Shared`` of decode_layers.cu, rounded up; the kernel asserts that it suffices."""
    decoder, attention = sizes.decoder, sizes.decode.attention
    head_dim, warps = decoder.head_dim, attention.key_warps
    row = (head_dim + 8) * 4
    qkv_tiles = (decoder.q_size + 2 * decoder.kv_size) // TILE_ROWS
    need = (
        max(decoder.hidden_size, decoder.q_size) * 4
        + _BATCH_UNITS * GEMM_WARPS * TILE_ROWS * 4
        + TILE_ROWS * row
        + (warps + 1) * head_dim // 2 * 8
        + warps * (TILE_ROWS * 8 + min(decoder.group_size, TILE_ROWS) * row)
        + -(-qkv_tiles // sizes.device.multiprocessors) * TILE_ROWS * 4
        + (6 + 3 * sizes.pages) * 4
        + GEMM_WARPS * 4 * 64
        + 512
    )
    return -(-need // 128) * 128
