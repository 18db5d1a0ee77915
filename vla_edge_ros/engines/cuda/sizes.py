# SPDX-License-Identifier: Apache-2.0
"""From model, frame and device sizes to the kernels' macros, grids and shared memory. Pure arithmetic.

Two variants of the kernels are compiled: ``tokens`` = 1 for a decode step, and the frame's tokens rounded up
to 8 for a prefill. The constants below repeat those of ``csrc/kernels``.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.engines.cuda.projection import Projection, plan_projection
from vla_edge_ros.engines.cuda.weight_format import BF16, FORMATS, TILE_ROWS, WARP, WeightFormat
from vla_edge_ros.errors import EngineError
from vla_edge_ros.model.decoder_config import DecoderConfig
from vla_edge_ros.model.quantise import format_of
from vla_edge_ros.model.tensor_shapes import EMBEDDING

TILE_TOKENS = 8
MAX_TOKENS = 64
MAX_SPLITS = 32  # one lane of a warp a split
PREFILL_ROW_WARPS, PREFILL_KEY_WARPS = 3, 4  # 12 warps: what the registers of an SM hold
DECODE_KEY_WARPS = 4  # fewer pages a block leave room for the next kernels' rings


def round_up(value: int, multiple: int) -> int:
    return ceil(value / multiple) * multiple


@dataclass(frozen=True, slots=True)
class Device:
    """What is asked of the device: ``architecture`` is 90 for sm_90; shared memory is a block's limit."""

    name: str
    architecture: int
    multiprocessors: int
    shared_bytes: int
    shared_bytes_sm: int

    @property
    def overlaps_kernels(self) -> bool:
        """Programmatic dependent launch."""
        return self.architecture >= 90


@dataclass(frozen=True, slots=True)
class Attention:
    """How one attention is cut: see attention.cu."""

    key_warps: int
    row_warps: int
    row_groups: int
    splits: int
    page_buffers: int
    shared_bytes: int

    @property
    def threads(self) -> int:
        return self.key_warps * self.row_warps * WARP


@dataclass(frozen=True, slots=True)
class PassSizes:
    """One variant: how many tokens a pass takes and how its kernels are cut."""

    tokens: int
    attention: Attention
    qkv: Projection
    output: Projection
    gate_up: Projection
    down: Projection
    head: Projection
    patch: Projection


@dataclass(frozen=True, slots=True)
class Sizes:
    """Everything a kernel launch needs that does not change."""

    decoder: DecoderConfig
    device: Device
    weights: WeightFormat  # of the layers' matrices
    embedding: WeightFormat  # of embedding and head
    pages: int
    page_slots: int
    ranks: int  # rows of the rotary table
    intermediate: int  # padded to a tile's k
    patch_values: int  # padded to a tile's k
    frame: tuple[int, int, int]  # width, height, patch size
    frame_tokens: int
    head_rows: int
    head_first: int
    decode: PassSizes
    prefill: PassSizes

    def macros(self, variant: PassSizes, projection: Projection | None = None) -> dict[str, str | int]:
        """What a kernel file is compiled with; ``projection`` for a file that holds one."""
        decoder, cut = self.decoder, projection or variant.qkv
        return {
            "TOKENS": variant.tokens,
            "HIDDEN": decoder.hidden_size,
            "INTERMEDIATE": self.intermediate,
            "HEADS": decoder.num_attention_heads,
            "KV_HEADS": decoder.num_key_value_heads,
            "HEAD_DIM": decoder.head_dim,
            "RMS_EPSILON": f"{decoder.rms_norm_eps!r}f",
            "SOFTMAX_SCALE": f"{decoder.head_dim**-0.5!r}f",
            "PAGE_SLOTS": self.page_slots,
            "MAX_PAGES": self.pages,
            "WEIGHT_BITS": cut.weights.bits,
            "EMBEDDING_BITS": self.embedding.bits,
            "EMBEDDING_TILES": ceil(decoder.vocab_size / TILE_ROWS),
            "STAGES": cut.stages,
            "STAGE_TILES": cut.stage_tiles,
            "BATCH_TILES": cut.batch_tiles,
            "OPERAND_IN_SHARED": int(cut.operand_in_shared),
            "KEY_WARPS": variant.attention.key_warps,
            "ROW_WARPS": variant.attention.row_warps,
            "PAGE_BUFFERS": variant.attention.page_buffers,
            "SPLITS": variant.attention.splits,
            "OUTPUT_PARTS": variant.output.parts,
            "DOWN_PARTS": variant.down.parts,
            "HEAD_ROWS": self.head_rows,
            "HEAD_FIRST": self.head_first,
            "FRAME_WIDTH": self.frame[0],
            "FRAME_HEIGHT": self.frame[1],
            "PATCH_SIZE": self.frame[2],
            "PATCH_VALUES": self.patch_values,
        }


def plan(decoder: DecoderConfig, config: VlaConfig, device: Device) -> Sizes:
    """Raise ``EngineError`` for sizes the kernels do not have, naming what they have."""
    _check(decoder, config, device)
    pages, slots = config.cache.pages, config.cache.page_slots
    body = FORMATS[config.engine.weights]
    embedding = FORMATS[format_of(EMBEDDING, config.engine.weights)]
    intermediate = round_up(decoder.intermediate_size, body.tile_k)
    patch_values = round_up(config.frame.patch_size**2 * 3, BF16.tile_k)
    whole_head = config.action.head == "full_vocabulary"
    head_rows = decoder.vocab_size if whole_head else config.action.bins

    def variant(tokens: int) -> PassSizes:
        def cut(rows: int, k: int, most_parts: int, weights: WeightFormat = body) -> Projection:
            return plan_projection(
                tokens, ceil(rows / TILE_ROWS), k // weights.tile_k, most_parts, device.multiprocessors,
                device.shared_bytes, device.shared_bytes_sm, weights,
            )  # fmt: skip

        hidden, q_size = decoder.hidden_size, decoder.q_size
        return PassSizes(
            tokens=tokens,
            attention=_plan_attention(tokens, decoder, device, pages, slots),
            qkv=cut(q_size + 2 * decoder.kv_size, hidden, 1),
            output=cut(hidden, q_size, 8),
            gate_up=cut(2 * intermediate, hidden, 1),
            down=cut(hidden, intermediate, 16),
            head=cut(head_rows, hidden, 1, embedding),
            patch=cut(hidden, patch_values, 1, BF16),
        )

    return Sizes(
        decoder=decoder,
        device=device,
        weights=body,
        embedding=embedding,
        pages=pages,
        page_slots=slots,
        ranks=config.cache.capacity_slots + slots,
        intermediate=intermediate,
        patch_values=patch_values,
        frame=(config.frame.width, config.frame.height, config.frame.patch_size),
        frame_tokens=config.frame.tokens,
        head_rows=head_rows,
        head_first=decoder.vocab_size - head_rows,
        decode=variant(1),
        prefill=variant(round_up(config.frame.tokens, TILE_TOKENS)),
    )


def _check(decoder: DecoderConfig, config: VlaConfig, device: Device) -> None:
    capability, slots, tokens = device.architecture / 10, config.cache.page_slots, config.frame.tokens
    for name, value, holds, expected in (
        ("compute capability", capability, capability >= 8.0, "at least 8.0"),
        ("hidden_size", decoder.hidden_size, decoder.hidden_size % 64 == 0, "a multiple of 64"),
        ("head_dim", decoder.head_dim, decoder.head_dim in (64, 128), "64 or 128"),
        ("cache.page_slots", slots, slots in (16, 32, 48, 64), "16, 32, 48 or 64"),
        ("the frame's vision tokens", tokens, tokens <= MAX_TOKENS, f"at most {MAX_TOKENS}"),
    ):
        if not holds:
            raise EngineError(f"the CUDA kernels need {name} to be {expected}, got {value}")


def _plan_attention(tokens: int, decoder: DecoderConfig, device: Device, pages: int, slots: int) -> Attention:
    query_tiles = ceil(tokens * decoder.group_size / TILE_ROWS)
    row_warps = min(query_tiles, PREFILL_ROW_WARPS) if tokens > 1 else 1
    row_groups = ceil(query_tiles / row_warps)
    key_warps = PREFILL_KEY_WARPS if tokens > 1 else DECODE_KEY_WARPS

    def shared(key_warps: int, buffers: int) -> int:
        return attention_shared(tokens, key_warps, row_warps, buffers, slots, decoder)

    while key_warps > 1 and shared(key_warps, 1) > device.shared_bytes:
        key_warps //= 2
    blocks_a_split = decoder.num_key_value_heads * row_groups
    wanted = max(1, device.multiprocessors // blocks_a_split) if tokens > 1 else MAX_SPLITS
    splits = min(wanted, MAX_SPLITS, ceil(pages / key_warps))
    loops = splits * key_warps < pages
    buffers = 2 if loops and shared(key_warps, 2) <= device.shared_bytes else 1
    return Attention(key_warps, row_warps, row_groups, splits, buffers, shared(key_warps, buffers))


def attention_shared(
    tokens: int, key_warps: int, row_warps: int, buffers: int, slots: int, decoder: DecoderConfig
) -> int:
    """Bytes of attention.cu: pages, queries and angles; or in their place what the key warps merge."""
    head_dim, rows = decoder.head_dim, tokens * decoder.group_size
    turns = min(tokens, (row_warps * TILE_ROWS - 1) // decoder.group_size + 2)
    pages = buffers * key_warps * 2 * slots * head_dim * 2
    queries = row_warps * TILE_ROWS * (head_dim + 8) * 4
    angles = buffers * key_warps * turns * (head_dim // 2 + 2) * 8
    merge = key_warps * row_warps * (TILE_ROWS * 8 + min(rows, TILE_ROWS) * (head_dim + 8) * 4)
    return max(pages + queries + angles, merge)
