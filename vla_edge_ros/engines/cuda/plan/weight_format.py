# SPDX-License-Identifier: Apache-2.0
"""How the kernels keep weights: bytes of tiles and scales, as in ``weight_format.cuh``.

A tile is 512 bytes in every format, 16 rows and as many k as fit. A matrix is its tiles, then its scales.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from vla_edge_ros.model.quantise import GROUP

WARP = 32
TILE_ROWS = 16
TILE_BYTES = 512
_LINE = 128  # matrices begin at a cache line


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """``bits`` a weight."""

    name: str
    bits: int

    @property
    def tile_k(self) -> int:
        """k of one tile: a matrix is padded to a multiple of it."""
        return TILE_BYTES * 8 // (TILE_ROWS * self.bits)

    def k_tiles(self, columns: int) -> int:
        return ceil(columns / self.tile_k)

    def tiles_bytes(self, rows: int, columns: int) -> int:
        return ceil(rows / TILE_ROWS) * self.k_tiles(columns) * TILE_BYTES

    def scales_bytes(self, rows: int, columns: int) -> int:
        """int8: a float32 a row; int4: a bfloat16 a row and group."""
        row_bytes = {16: 0, 8: 4, 4: 2 * ceil(columns / GROUP)}[self.bits]
        return ceil(rows / TILE_ROWS) * TILE_ROWS * row_bytes

    def matrix_bytes(self, rows: int, columns: int) -> int:
        whole = self.tiles_bytes(rows, columns) + self.scales_bytes(rows, columns)
        return ceil(whole / _LINE) * _LINE

    def stage_bytes(self, stage_tiles: int) -> int:
        """Shared memory of one stage: ``STAGE_BYTES`` of weight_stream.cuh."""
        scales = {16: 0, 8: 2, 4: stage_tiles // 2 + 1}[self.bits]
        return stage_tiles * TILE_BYTES + scales * WARP * 4


BF16, INT8, INT4 = WeightFormat("bf16", 16), WeightFormat("int8", 8), WeightFormat("int4", 4)
FORMATS = {each.name: each for each in (BF16, INT8, INT4)}
