# SPDX-License-Identifier: Apache-2.0
"""The tiling of one projection over blocks and warps: the grid and shared memory of skinny_gemm.cuh.

The weights' stream is the cost, so the busiest block's share of it decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import NamedTuple

from vla_edge_ros.engines.cuda.plan.token_rows import TokenRows
from vla_edge_ros.engines.cuda.plan.weight_format import BF16, TILE_BYTES, WARP, WeightFormat
from vla_edge_ros.errors import EngineError

TILE_K = 16  # of one tensor-core operand
GEMM_WARPS = 8
GEMM_THREADS = GEMM_WARPS * WARP
# A warp keeps at most this much on its way, whatever the format: with more the next kernel's rings find less
# room beside this one's (docs/explanation/engine-log.md).
MOST_RING_BYTES = 18 * TILE_BYTES
# Integer tiles hold more k, so a row has few of them: smaller copies keep the ring full across row tiles.
MOST_STAGE_TILES = {16: 6, 8: 3, 4: 3}
MOST_STAGES = 6
# Row tiles a block sums before its warps meet: one token is cheap to keep, many are not.
MOST_BATCH_TILES_ONE_TOKEN, MOST_BATCH_TILES = 16, 1
COST_OF_TOKENS_THROUGH_L2 = 1.5
# Of the 255 that a thread has: beside them are two sums a column tile, the weights in hand, and addresses.
MOST_OPERAND_REGISTERS = 144
# With two column tiles the tokens are few, and a verification pass is 2 % faster with them in shared memory.
LEAST_REGISTER_TILES = 4
# A drafted prefill, six tiles, takes 1.85 ms with two sets of sums and 1.91 with one; a plain one, with
# four tiles, 1.54 and 1.50.
LEAST_TILES_FOR_TWO_SETS = 5
# One more split of k must make the busiest block's share this much smaller: the next norm reads one more row.
WORTH_A_SPLIT = 0.97
# Integers cost instructions: in a decode step 8 warps an SM wait for their own latency. 16 in two blocks take
# 2 % (int8) and 6 % (int4) less, with drafts planned in 11 and 14 % (docs/explanation/engine-log.md).
INTEGER_STEP_BLOCKS = 2


@dataclass(frozen=True, slots=True)
class ProjectionTiling:
    """``blocks`` along the rows times ``split_k`` of k; a warp keeps ``stages`` copies in flight.

    ``operand_steps``: sixteens of a warp's longest slice of k where it has the tokens in registers, else 0.
    """

    weights: WeightFormat
    blocks: int
    split_k: int
    stages: int
    stage_tiles: int
    batch_tiles: int
    sum_sets: int
    operand_steps: int
    operand_in_shared: bool
    shared_bytes: int

    @property
    def grid(self) -> tuple[int, int, int]:
        return (self.blocks, self.split_k, 1)


def plan_projections(
    variants: Sequence[TokenRows],
    row_tiles: int,
    k_tiles: int,
    most_split_k: int,
    multiprocessors: int,
    shared_bytes: int,
    shared_bytes_sm: int,
    weights: WeightFormat = BF16,
) -> list[ProjectionTiling]:
    """One tiling a variant, all with the same split-K: those whose busiest blocks read least in sum.

    The same split-K, and with it the same slices a warp, gives a token the same bits in each variant.
    In a decode step two kernels share an SM while one hands over to the next: each gets half of its memory,
    where that suffices. Tokens that fit neither in registers nor beside the rings are read through the L2.
    ``k_tiles``: tiles of ``weights`` along a row.
    """
    best: list[ProjectionTiling] = []
    least = 0.0
    for split_k in range(1, min(most_split_k, k_tiles) + 1):
        across = min(row_tiles, max(1, multiprocessors // split_k))
        tiles_a_block = ceil(row_tiles / across)
        tilings = []
        for rows in variants:
            blocks_an_sm = INTEGER_STEP_BLOCKS if rows.single and weights is not BF16 else 1
            blocks = min(row_tiles, max(1, blocks_an_sm * multiprocessors // split_k))
            half = min(shared_bytes, shared_bytes_sm // (2 * blocks_an_sm))
            limits = (half, shared_bytes) if rows.single else (shared_bytes,)
            tiling = _tiling(weights, rows, blocks, ceil(row_tiles / blocks), k_tiles, split_k, limits)
            if tiling is not None:
                tilings.append(tiling)
        if len(tilings) < len(variants):
            continue
        through_l2 = sum(not (tiling.operand_in_shared or tiling.operand_steps) for tiling in tilings)
        tiles = tiles_a_block * float(ceil(k_tiles / split_k))
        work = tiles * (len(tilings) + through_l2 * (COST_OF_TOKENS_THROUGH_L2 - 1))
        if not best or work < least * WORTH_A_SPLIT:
            best, least = tilings, work
    if not best:
        raise EngineError(
            f"the CUDA kernels have no tiling for a projection of {max(rows.tokens for rows in variants)} x "
            f"{k_tiles * weights.tile_k} values with split-K of at most {most_split_k} that fits "
            f"{shared_bytes} bytes of shared memory a block"
        )
    return best


def _tiling(
    weights: WeightFormat,
    rows: TokenRows,
    blocks: int,
    tiles_a_block: int,
    k_tiles: int,
    split_k: int,
    limits: tuple[int, ...],
) -> ProjectionTiling | None:
    """The largest batch, then the most stages, that fit into the first limit that any fit into; or none."""
    slice_tiles = ceil(ceil(k_tiles / split_k) / GEMM_WARPS)
    stage_tiles = ceil(slice_tiles / ceil(slice_tiles / MOST_STAGE_TILES[weights.bits]))
    stage_bytes = weights.stage_bytes(stage_tiles)
    in_ring = min(MOST_STAGES, MOST_RING_BYTES // stage_bytes)
    most_stages = min(in_ring, tiles_a_block * ceil(slice_tiles / stage_tiles))
    most_batch = min(tiles_a_block, MOST_BATCH_TILES_ONE_TOKEN if rows.single else MOST_BATCH_TILES)
    planned = partial(ProjectionTiling, weights, blocks, split_k)
    steps = weights.tile_k // TILE_K
    for place in _places(rows, tiles_a_block, slice_tiles * steps, ceil(k_tiles / split_k) * steps):
        for limit in limits:
            for batch in range(most_batch, 0, -1):
                for sets, stages in _rings(rows, tiles_a_block, most_stages):
                    need = _gemm_shared(rows, stages * stage_bytes, sets * batch) + place.shared_bytes
                    if need <= limit:
                        return planned(
                            stages, stage_tiles, batch, sets, place.steps, place.shared_bytes > 0, need
                        )
    return None


class _Place(NamedTuple):
    """Of the tokens: in shared memory, in registers (sixteens of k a warp), or, with neither, in the L2."""

    shared_bytes: int = 0
    steps: int = 0


def _places(rows: TokenRows, tiles_a_block: int, slice_steps: int, split_steps: int) -> list[_Place]:
    """The best one first."""
    shared, through_l2 = _Place(shared_bytes=split_steps * rows.operand_bytes), _Place()
    if rows.single:
        return [shared]
    if tiles_a_block == 1:  # each token is used once
        return [through_l2]
    registers = slice_steps * rows.column_tiles * 2
    if rows.column_tiles >= LEAST_REGISTER_TILES and registers <= MOST_OPERAND_REGISTERS:
        return [_Place(steps=slice_steps), shared, through_l2]
    return [shared, through_l2]


def _rings(rows: TokenRows, tiles_a_block: int, most_stages: int) -> list[tuple[int, int]]:
    """Sets of sums and stages a ring, the best first."""
    one_set = [(1, stages) for stages in range(most_stages, min(most_stages, 2) - 1, -1)]
    many_sums = rows.column_tiles >= LEAST_TILES_FOR_TWO_SETS and tiles_a_block > 1
    return [(2, most_stages), *one_set] if many_sums else one_set


def _gemm_shared(rows: TokenRows, ring_bytes: int, kept_tiles: int) -> int:
    """Rings and the warps' sums of ``kept_tiles`` row tiles: ``GEMM_BYTES`` of skinny_gemm.cuh."""
    row_pad = 16 if rows.single else 20
    return GEMM_WARPS * ring_bytes + kept_tiles * GEMM_WARPS * rows.tokens * row_pad * 4
