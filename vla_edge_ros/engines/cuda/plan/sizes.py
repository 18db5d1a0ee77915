# SPDX-License-Identifier: Apache-2.0
"""What the kernels are compiled and launched with: macros, grids and shared memory, by kind of pass.

The kernels are compiled once for each kind of pass: a decode step, a prefill, and, where drafts are on, a
prefill with draft tokens behind the frame and a verification pass, over draft tokens alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from vla_edge_ros.engines.cuda.plan.attention_tiling import AttentionTiling
from vla_edge_ros.engines.cuda.plan.device_sizes import Device
from vla_edge_ros.engines.cuda.plan.grid_barrier import MOST_POLLS
from vla_edge_ros.engines.cuda.plan.kv_page import KvFormat
from vla_edge_ros.engines.cuda.plan.projection_tiling import ProjectionTiling
from vla_edge_ros.engines.cuda.plan.token_rows import TokenRows
from vla_edge_ros.engines.cuda.plan.weight_format import TILE_ROWS, WeightFormat
from vla_edge_ros.model.decoder_config import DecoderConfig
from vla_edge_ros.sequence import Decoding, SequenceLayout


@dataclass(frozen=True, slots=True)
class PassSizes:
    """One kind of pass: which tokens it takes and the tiling of its kernels."""

    rows: TokenRows
    attention: AttentionTiling
    qkv: ProjectionTiling
    output: ProjectionTiling
    gate_up: ProjectionTiling
    down: ProjectionTiling
    head: ProjectionTiling
    patch: ProjectionTiling

    @property
    def tokens(self) -> int:
        return self.rows.tokens


@dataclass(frozen=True, slots=True)
class PersistentDecode:
    """How a decode step's layers run as one persistent kernel; ``stages`` of a warp's ring."""

    blocks: int
    stage_tiles: int
    stages: int
    deferred_stages: int
    prefetch_units: int
    fixed_shared_bytes: int
    shared_bytes: int

    def macros(self) -> dict[str, str | int]:
        return {
            "PERSISTENT": 1,
            "BLOCKS": self.blocks,
            "STAGE_TILES": self.stage_tiles,
            "STAGES": self.stages,
            "DEFERRED_STAGES": self.deferred_stages,
            "PREFETCH_UNITS": self.prefetch_units,
            "FIXED_SHARED_BYTES": self.fixed_shared_bytes,
            "MOST_POLLS": MOST_POLLS,
        }


@dataclass(frozen=True, slots=True)
class Sizes:
    """Everything a kernel launch needs that does not change. ``passes``: ``decode``, ``prefill`` and, where
    drafts are on, ``drafted`` (a frame and draft tokens behind it) and ``verify`` (the verification pass)."""

    decoder: DecoderConfig
    device: Device
    weights: WeightFormat  # of the layers' matrices
    embedding: WeightFormat  # of embedding and head
    kv: KvFormat
    pages: int
    page_slots: int
    ranks: int  # rows of the rotary table
    intermediate: int  # padded to a tile's k
    patch_values: int  # padded to a tile's k
    frame: tuple[int, int, int]  # width, height, patch size
    layout: SequenceLayout
    head_rows: int
    head_first: int
    passes: dict[str, PassSizes]
    persistent: PersistentDecode | None = None

    @property
    def decode(self) -> PassSizes:
        return self.passes["decode"]

    @property
    def prefill(self) -> PassSizes:
        return self.passes["prefill"]

    @property
    def frame_tokens(self) -> int:
        """Vision tokens of a frame."""
        return self.layout.frame_tokens

    @property
    def frame_passes(self) -> int:
        """Passes of ``prefill.tokens`` rows that the patches of a frame take."""
        return ceil(self.frame_tokens / self.prefill.tokens)

    @property
    def has_queries(self) -> bool:
        """Learned queries, and not drafts, are the rows behind a frame."""
        return self.layout.decoding is Decoding.PARALLEL

    @property
    def draft_tokens(self) -> int:
        """Rows for drafts or queries that a pass has behind the frame; 0 where there are none."""
        return self.passes["verify"].tokens if "verify" in self.passes else 0

    def macros(self, variant: PassSizes, projection: ProjectionTiling | None = None) -> dict[str, str | int]:
        """What a kernel file is compiled with; ``projection`` for a file that holds one."""
        decoder, tiling = self.decoder, projection or variant.qkv
        return {
            "TOKENS": variant.tokens,
            "FRAME_TOKENS": variant.rows.frame,
            "ACTION_TOKENS": variant.rows.action,
            "HIDDEN": decoder.hidden_size,
            "INTERMEDIATE": self.intermediate,
            "HEADS": decoder.num_attention_heads,
            "KV_HEADS": decoder.num_key_value_heads,
            "HEAD_DIM": decoder.head_dim,
            "RMS_EPSILON": f"{decoder.rms_norm_eps!r}f",
            "SOFTMAX_SCALE": f"{decoder.head_dim**-0.5!r}f",
            "PAGE_SLOTS": self.page_slots,
            "MAX_PAGES": self.pages,
            "KV_BITS": self.kv.bits,
            "WEIGHT_BITS": tiling.weights.bits,
            "EMBEDDING_BITS": self.embedding.bits,
            "EMBEDDING_TILES": ceil(decoder.vocab_size / TILE_ROWS),
            "STAGES": tiling.stages,
            "STAGE_TILES": tiling.stage_tiles,
            "BATCH_TILES": tiling.batch_tiles,
            "SUM_SETS": tiling.sum_sets,
            "OPERAND_STEPS": tiling.operand_steps,
            "OPERAND_IN_SHARED": int(tiling.operand_in_shared),
            "KEY_WARPS": variant.attention.key_warps,
            "ROW_WARPS": variant.attention.row_warps,
            "PAGE_BUFFERS": variant.attention.page_buffers,
            "FRAME_SPLITS": variant.attention.frame_splits,
            "ACTION_SPLITS": variant.attention.action_splits,
            "OUTPUT_SPLIT_K": variant.output.split_k,
            "DOWN_SPLIT_K": variant.down.split_k,
            "HEAD_ROWS": self.head_rows,
            "HEAD_FIRST": self.head_first,
            "FRAME_WIDTH": self.frame[0],
            "FRAME_HEIGHT": self.frame[1],
            "PATCH_SIZE": self.frame[2],
            "PATCH_VALUES": self.patch_values,
        }
