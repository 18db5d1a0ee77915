# SPDX-License-Identifier: Apache-2.0
"""Read packed weights back as matrices: for tests and debugging, never in a cycle.

The index maps repeat those of ``packing.cuh`` and ``weight_format.cuh``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.engines.cuda.load.packed_weights import HALF_SPLIT, INTERLEAVED, Target
from vla_edge_ros.engines.cuda.plan.weight_format import TILE_BYTES, TILE_ROWS, WeightFormat
from vla_edge_ros.model.bfloat16 import bfloat16_to_float32
from vla_edge_ros.model.quantise import GROUP
from vla_edge_ros.model.tensor_shapes import tensor_shapes

if TYPE_CHECKING:
    from vla_edge_ros.engines.cuda.engine import CudaEngine

Float = NDArray[np.float32]
Index = NDArray[np.int64]


def packed_rows(target: Target, rows: Index) -> Index:
    """Where rows of the stored tensor are among the packed ones."""
    if target.order == HALF_SPLIT:
        half = target.period_or_lane // 2
        at = rows % target.period_or_lane
        rows = rows - at + at % half // 8 * 16 + at // half * 8 + at % 8
    elif target.order == INTERLEAVED:
        rows = rows // 8 * 16 + target.period_or_lane + rows % 8
    return rows + target.row_shift


def element_offsets(weights: WeightFormat, row: Index, k: Index) -> tuple[Index, Index]:
    """``(byte, bit)`` of an element inside its tile."""
    lane = row % 8 * 4 + k % 8 // 2
    half = row % TILE_ROWS // 8
    if weights.bits == 16:
        return lane * 16 + (half + k % 16 // 8 * 2) * 4 + k % 2 * 2, 0 * k
    word = k % weights.tile_k // (8 if weights.bits == 8 else 16)
    return lane * 16 + word * 4 + k % 2 * 2 + half, k % 16 // 8 * 4 if weights.bits == 4 else 0 * k


def read_weights(engine: CudaEngine, target: Target) -> tuple[range, Float]:
    """The rows that are kept of a matrix, and their values ``[kept rows, in]`` as they are multiplied."""
    shape = tensor_shapes(engine.sizes.decoder)[target.tensor]
    kept = range(*(target.rows or (0, shape[0])))
    assert target.matrix, f"{target.tensor} is no matrix"
    packed = target.weights.matrix_bytes(*target.matrix)
    buffer = engine.buffers.array(target.buffer, np.uint8, (engine.buffers.parts[target.buffer],))
    data = buffer[target.offset : target.offset + packed].get()
    rows, k = np.ix_(packed_rows(target, np.array(kept)), np.arange(shape[1]))
    return kept, _values(target.weights, target.matrix, data, rows, k)


def _values(
    weights: WeightFormat, matrix: tuple[int, int], data: NDArray[np.uint8], rows: Index, k: Index
) -> Float:
    columns = matrix[1]
    tile = rows // TILE_ROWS * weights.k_tiles(columns) + k // weights.tile_k
    byte, bit = element_offsets(weights, rows, k)
    at = tile * TILE_BYTES + byte
    if weights.bits == 16:
        return bfloat16_to_float32(data.view(np.uint16)[at // 2])
    scale_lane = rows % 8 * 2 + rows % TILE_ROWS // 8
    scales = data[weights.tiles_bytes(*matrix) :]
    if weights.bits == 8:
        values = data[at].view(np.int8)
        scale = scales[: len(scales) // 4 * 4].view(np.float32)[rows // TILE_ROWS * TILE_ROWS + scale_lane]
    else:
        values = ((data[at] >> bit & 15) ^ 8).astype(np.int8) - 8
        groups = -(-columns // GROUP)
        place = (rows // TILE_ROWS * groups + k // GROUP) * TILE_ROWS + scale_lane
        scale = bfloat16_to_float32(scales.view(np.uint16)[place])
    return values * scale
