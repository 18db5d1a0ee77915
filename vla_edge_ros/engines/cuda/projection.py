# SPDX-License-Identifier: Apache-2.0
"""How one projection is dealt out to blocks and warps: the grid and shared memory of skinny_gemm.cuh.

The weights' stream is the cost, so the busiest block's share of it decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from vla_edge_ros.errors import EngineError

WARP = 32
TILE_ROWS = TILE_K = 16
TILE_BYTES = 512
GEMM_WARPS = 8
GEMM_THREADS = GEMM_WARPS * WARP
MOST_STAGE_TILES = 6
MOST_STAGES = 4
BATCH_TILES_ONE_TOKEN = 16
COST_OF_A_MISSING_STAGE = 0.05  # of the stream's time; fewer bytes in flight
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
    operand_in_shared: bool
    shared_bytes: int

    @property
    def grid(self) -> tuple[int, int, int]:
        return (self.blocks, self.parts, 1)


def plan_projection(
    tokens: int,
    row_tiles: int,
    k_tiles: int,
    most_parts: int,
    multiprocessors: int,
    shared_bytes: int,
    shared_bytes_sm: int,
) -> Projection:
    """The cut whose busiest block reads least, within ``shared_bytes`` a block.

    In a decode step two kernels share an SM while one hands over to the next: each gets half of its memory,
    where that suffices. Tokens of a prefill that do not fit beside the rings are read through the L2.
    """
    limits = (min(shared_bytes, shared_bytes_sm // 2), shared_bytes) if tokens == 1 else (shared_bytes,)
    best: Projection | None = None
    least = 0.0
    for parts in range(1, min(most_parts, k_tiles) + 1):
        across = min(row_tiles, max(1, multiprocessors // parts))
        tiles_a_block = ceil(row_tiles / across)
        cut, missing_stages = _cut(tokens, across, tiles_a_block, k_tiles, parts, limits)
        work = tiles_a_block * ceil(k_tiles / parts) * (1 + COST_OF_A_MISSING_STAGE * missing_stages)
        if not cut.operand_in_shared:
            work *= COST_OF_TOKENS_THROUGH_L2
        if best is None or work < least * WORTH_A_PART:
            best, least = cut, work
    assert best is not None
    return best


def _cut(
    tokens: int, blocks: int, tiles_a_block: int, k_tiles: int, parts: int, limits: tuple[int, ...]
) -> tuple[Projection, int]:
    """The most stages that fit into the first limit that any fit into; and how many are missing."""
    slice_tiles = ceil(ceil(k_tiles / parts) / GEMM_WARPS)
    stage_tiles = ceil(slice_tiles / ceil(slice_tiles / MOST_STAGE_TILES))
    most = min(MOST_STAGES, tiles_a_block * ceil(slice_tiles / stage_tiles))
    operand = ceil(k_tiles / parts) * TILE_K * tokens * 2
    for in_shared in (True, False) if tokens > 1 else (True,):
        for limit in limits:
            for stages in range(most, min(most, 2) - 1, -1):
                need = _gemm_shared(tokens, stages, stage_tiles) + (operand if in_shared else 0)
                if need <= limit:
                    cut = Projection(blocks, parts, stages, stage_tiles, in_shared, need)
                    return cut, most - stages
    raise EngineError(
        f"the CUDA kernels need {need} bytes of shared memory a block for {tokens} tokens of "
        f"{k_tiles * TILE_K} values, got {limits[-1]}"
    )


def _gemm_shared(tokens: int, stages: int, stage_tiles: int) -> int:
    """Rings, mbarriers and warp sums: ``GEMM_BYTES`` of skinny_gemm.cuh."""
    ring = GEMM_WARPS * stages * (stage_tiles * TILE_BYTES + 8)
    batch, row_pad = (BATCH_TILES_ONE_TOKEN, 16) if tokens == 1 else (1, 20)
    return ring + batch * GEMM_WARPS * tokens * row_pad * 4
