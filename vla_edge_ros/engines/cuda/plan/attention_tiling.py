# SPDX-License-Identifier: Apache-2.0
"""The tiling of one attention over blocks and warps: the grid and shared memory of attention.cu."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from vla_edge_ros.engines.cuda.plan.device_sizes import Device
from vla_edge_ros.engines.cuda.plan.kv_page import KvFormat
from vla_edge_ros.engines.cuda.plan.token_rows import TokenRows
from vla_edge_ros.engines.cuda.plan.weight_format import TILE_ROWS, WARP
from vla_edge_ros.model.decoder_config import DecoderConfig

MAX_SPLITS = 32  # one lane of a warp a split
MOST_ROW_WARPS, MOST_KEY_WARPS = 3, 4  # 12 warps: what the registers of an SM hold
# That a block of an action takes where a frame's blocks stand beside it: those have two or three pages a key
# warp, one split of an action has one.
SPLITS_IN_TURN = 2


@dataclass(frozen=True, slots=True)
class AttentionTiling:
    """``row_groups`` blocks along the query rows, those of the frame before those of the action."""

    key_warps: int
    row_warps: int
    row_groups: int
    frame_splits: int
    action_splits: int
    splits: int  # along the pages: of the rows that have more
    split_blocks: int  # blocks along the pages
    page_buffers: int
    shared_bytes: int

    @property
    def threads(self) -> int:
        return self.key_warps * self.row_warps * WARP


def plan_attentions(
    variants: Sequence[TokenRows],
    decoder: DecoderConfig,
    device: Device,
    pages: int,
    slots: int,
    kv: KvFormat,
) -> list[AttentionTiling]:
    """One tiling a variant. All deal pages to the same warps and, for action tokens, to the same splits."""
    key_warps = MOST_KEY_WARPS
    while key_warps > 1 and any(
        attention_shared(rows, key_warps, _row_warps(rows, decoder), 1, slots, decoder, kv)
        > device.shared_bytes
        for rows in variants
    ):
        key_warps //= 2
    splits = min(MAX_SPLITS, ceil(pages / key_warps))
    # A frame's tokens get the same bits in each variant too, so where one has an action behind the frame, its
    # blocks leave room for that in all of them: a second wave of blocks would cost half as much again.
    beside = max(_action_blocks(rows, splits, decoder) if rows.frame else 0 for rows in variants)
    multiprocessors = device.multiprocessors
    room = multiprocessors - beside if multiprocessors >= 2 * beside else multiprocessors
    return [_tiling(rows, key_warps, splits, room, decoder, device, pages, slots, kv) for rows in variants]


def _row_groups(rows: TokenRows, tokens: int, decoder: DecoderConfig) -> int:
    return ceil(tokens * decoder.group_size / (TILE_ROWS * _row_warps(rows, decoder)))


def _action_blocks(rows: TokenRows, splits: int, decoder: DecoderConfig) -> int:
    """Of a pass with a frame."""
    groups = _row_groups(rows, rows.action, decoder)
    return decoder.num_key_value_heads * groups * ceil(splits / SPLITS_IN_TURN)


def _row_warps(rows: TokenRows, decoder: DecoderConfig) -> int:
    return min(ceil(max(rows.frame, rows.action) * decoder.group_size / TILE_ROWS), MOST_ROW_WARPS)


def _tiling(
    rows: TokenRows,
    key_warps: int,
    most_splits: int,
    room: int,
    decoder: DecoderConfig,
    device: Device,
    pages: int,
    slots: int,
    kv: KvFormat,
) -> AttentionTiling:
    """``room``: multiprocessors that a frame's blocks share."""
    row_warps = _row_warps(rows, decoder)
    frame_groups = _row_groups(rows, rows.frame, decoder)
    action_groups = _row_groups(rows, rows.action, decoder)
    # An action's few rows: fewer pages a block leave room for the next kernels' rings
    # (docs/explanation/engine-log.md).
    action_splits = most_splits
    frame_blocks = decoder.num_key_value_heads * max(frame_groups, 1)
    frame_splits = min(most_splits, max(1, room // frame_blocks))
    kinds = ((rows.frame, frame_splits), (rows.action, action_splits))
    used = [splits for tokens, splits in kinds if tokens > 0]
    split_blocks = max(used)
    if rows.frame and rows.action:
        split_blocks = max(frame_splits, ceil(action_splits / SPLITS_IN_TURN))

    def shared(buffers: int) -> int:
        return attention_shared(rows, key_warps, row_warps, buffers, slots, decoder, kv)

    loops = min(used) * key_warps < pages
    buffers = 2 if loops and shared(2) <= device.shared_bytes else 1
    return AttentionTiling(
        key_warps,
        row_warps,
        frame_groups + action_groups,
        frame_splits,
        action_splits,
        max(used),
        split_blocks,
        buffers,
        shared(buffers),
    )


def attention_shared(
    rows: TokenRows,
    key_warps: int,
    row_warps: int,
    buffers: int,
    slots: int,
    decoder: DecoderConfig,
    kv: KvFormat,
) -> int:
    """Bytes of attention.cu: pages, queries and angles; or in their place what the key warps merge.

    A frame's int8 keys are turned into a place of their own, one page a key warp.
    """
    head_dim, query_rows = decoder.head_dim, rows.tokens * decoder.group_size
    turns = min(rows.tokens, (row_warps * TILE_ROWS - 1) // decoder.group_size + 2)
    turned = slots * head_dim * 2 if rows.frame and kv.bits == 8 else 0
    pages = key_warps * (buffers * 2 * kv.page_bytes(slots, head_dim) + turned)
    queries = row_warps * TILE_ROWS * (head_dim + 8) * 4
    of_frame = buffers * key_warps + turns if rows.frame else 0
    of_action = buffers * key_warps * turns if rows.action else 0
    angles = max(of_frame, of_action) * (head_dim // 2 + 2) * 8
    merge = key_warps * row_warps * (TILE_ROWS * 8 + min(query_rows, TILE_ROWS) * (head_dim + 8) * 4)
    return max(pages + queries + angles, merge)
