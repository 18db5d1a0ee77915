# SPDX-License-Identifier: Apache-2.0
"""How one projection is dealt out to blocks and warps: the grid and shared memory of skinny_gemm.cuh.

The weights' stream is the cost, so the busiest block's share of it decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from vla_edge_ros.engines.cuda.token_rows import TokenRows
from vla_edge_ros.errors import EngineError

WARP = 32
TILE_ROWS = TILE_K = 16
TILE_BYTES = 512
GEMM_WARPS = 8
GEMM_THREADS = GEMM_WARPS * WARP
MOST_STAGE_TILES = 6
MOST_STAGES = 3  # with 4 the next kernel's rings find less room beside this one's: docs/engine-log.md
# Row tiles a block sums before its warps meet: one token is cheap to keep, many are not.
MOST_BATCH_TILES_ONE_TOKEN, MOST_BATCH_TILES = 16, 1
COST_OF_TOKENS_THROUGH_L2 = 1.5
# A part of k more must make the busiest block's share this much smaller: the next norm reads one more row.
WORTH_A_PART = 0.97


@dataclass(frozen=True, slots=True)
class Projection:
    """``blocks`` along the rows times ``parts`` along k; a warp keeps ``stages`` copies in flight."""

    blocks: int
    parts: int
    stages: int
    stage_tiles: int
    batch_tiles: int
    operand_in_shared: bool
    shared_bytes: int

    @property
    def grid(self) -> tuple[int, int, int]:
        return (self.blocks, self.parts, 1)


def plan_projections(
    variants: Sequence[TokenRows],
    row_tiles: int,
    k_tiles: int,
    most_parts: int,
    multiprocessors: int,
    shared_bytes: int,
    shared_bytes_sm: int,
) -> list[Projection]:
    """One cut a variant, all with the same parts of k: those whose busiest blocks read least in sum.

    The same parts, and with them the same slices a warp, give a token the same bits in each variant.
    In a decode step two kernels share an SM while one hands over to the next: each gets half of its memory,
    where that suffices. Tokens that do not fit beside the rings are read through the L2.
    """
    best: list[Projection] = []
    least = 0.0
    for parts in range(1, min(most_parts, k_tiles) + 1):
        across = min(row_tiles, max(1, multiprocessors // parts))
        tiles_a_block = ceil(row_tiles / across)
        cuts = []
        for rows in variants:
            half = min(shared_bytes, shared_bytes_sm // 2)
            limits = (half, shared_bytes) if rows.single else (shared_bytes,)
            cut = _cut(rows, across, tiles_a_block, k_tiles, parts, limits)
            if cut is not None:
                cuts.append(cut)
        if len(cuts) < len(variants):
            continue
        through_l2 = sum(not cut.operand_in_shared for cut in cuts)
        tiles = tiles_a_block * float(ceil(k_tiles / parts))
        work = tiles * (len(cuts) + through_l2 * (COST_OF_TOKENS_THROUGH_L2 - 1))
        if not best or work < least * WORTH_A_PART:
            best, least = cuts, work
    if not best:
        raise EngineError(
            f"the CUDA kernels cannot cut a projection of {max(rows.tokens for rows in variants)} x "
            f"{k_tiles * TILE_K} values into at most {most_parts} parts that fit {shared_bytes} bytes of "
            f"shared memory a block"
        )
    return best


def _cut(
    rows: TokenRows, blocks: int, tiles_a_block: int, k_tiles: int, parts: int, limits: tuple[int, ...]
) -> Projection | None:
    """The largest batch, then the most stages, that fit into the first limit that any fit into; or none."""
    slice_tiles = ceil(ceil(k_tiles / parts) / GEMM_WARPS)
    stage_tiles = ceil(slice_tiles / ceil(slice_tiles / MOST_STAGE_TILES))
    most_stages = min(MOST_STAGES, tiles_a_block * ceil(slice_tiles / stage_tiles))
    most_batch = min(tiles_a_block, MOST_BATCH_TILES_ONE_TOKEN if rows.single else MOST_BATCH_TILES)
    operand = ceil(k_tiles / parts) * rows.operand_bytes
    for in_shared in (True,) if rows.single else (True, False):
        for limit in limits:
            for batch in range(most_batch, 0, -1):
                for stages in range(most_stages, min(most_stages, 2) - 1, -1):
                    need = _gemm_shared(rows, stages, stage_tiles, batch) + (operand if in_shared else 0)
                    if need <= limit:
                        return Projection(blocks, parts, stages, stage_tiles, batch, in_shared, need)
    return None


def _gemm_shared(rows: TokenRows, stages: int, stage_tiles: int, batch_tiles: int) -> int:
    """Rings and the warps' sums: ``GEMM_BYTES`` of skinny_gemm.cuh."""
    ring = GEMM_WARPS * stages * stage_tiles * TILE_BYTES
    row_pad = 16 if rows.single else 20
    return ring + batch_tiles * GEMM_WARPS * rows.tokens * row_pad * 4
