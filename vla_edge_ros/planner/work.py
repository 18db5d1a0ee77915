# SPDX-License-Identifier: Apache-2.0
"""What the stages of a chunk read and multiply, from the engine's own plan."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from vla_edge_ros.engines.cuda.plan.projection_tiling import COST_OF_TOKENS_THROUGH_L2, ProjectionTiling
from vla_edge_ros.engines.cuda.plan.sizes import Sizes
from vla_edge_ros.engines.cuda.plan.weight_buffers import pass_bytes, weight_needs
from vla_edge_ros.engines.cuda.plan.weight_format import TILE_ROWS


@dataclass(frozen=True, slots=True)
class Work:
    """Of one launch of a stage: bytes from memory, floating-point operations, layers that wait in turn.

    ``stream_bytes``: ``bytes``, with the weights whose tokens a warp reads through the L2 for every tile
    counted as often as the engine's own tiling prices them.
    """

    bytes: float
    flop: float
    layers: int
    stream_bytes: float


def embed_work(sizes: Sizes) -> Work:
    """Pixels to vision tokens: the patch projection, read once for each pass over a page of patches."""
    rows = sizes.frame_passes * sizes.prefill.tokens
    weights = sizes.frame_passes * weight_needs(sizes)["patch_projection"]
    read = weights + 3.0 * sizes.frame[0] * sizes.frame[1]
    return Work(read, 2.0 * rows * sizes.patch_values * sizes.decoder.hidden_size, 0, read)


def pass_work(sizes: Sizes, name: str, slots: int) -> Work:
    """One pass of the plan's kind ``name`` that sees ``slots`` slots: all layers and one row of the head."""
    decoder, rows = sizes.decoder, sizes.passes[name].tokens
    projections = decoder.hidden_size * (
        2 * decoder.q_size + 2 * decoder.kv_size + 3 * decoder.intermediate_size
    )
    attention = 2 * slots * decoder.q_size  # scores and values, a multiply-add a number
    layers = decoder.num_hidden_layers * (projections + attention)
    head = sizes.head_rows * decoder.hidden_size
    read = pass_bytes(sizes, slots)
    again = (COST_OF_TOKENS_THROUGH_L2 - 1) * _through_l2_bytes(sizes, name)
    return Work(read, 2.0 * (rows * layers + head), decoder.num_hidden_layers, read + again)


def _through_l2_bytes(sizes: Sizes, name: str) -> int:
    """Weights of the projections whose tokens fit neither in registers nor in shared memory.

    A block of one row tile uses each token once: there it costs nothing.
    """
    decoder, planned, needs = sizes.decoder, sizes.passes[name], weight_needs(sizes)
    hidden = decoder.hidden_size
    projections = (
        ("qkv", decoder.q_size + 2 * decoder.kv_size, planned.qkv),
        ("output", hidden, planned.output),
        ("gate_up", 2 * sizes.intermediate, planned.gate_up),
        ("down", hidden, planned.down),
    )
    return sum(needs[buffer] for buffer, rows, tiling in projections if _is_through_l2(rows, tiling))


def _is_through_l2(rows: int, tiling: ProjectionTiling) -> bool:
    is_kept = tiling.operand_in_shared or tiling.operand_steps > 0
    return not is_kept and ceil(rows / TILE_ROWS) > tiling.blocks
