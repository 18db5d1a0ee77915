# SPDX-License-Identifier: Apache-2.0
"""From model, frame and device to ``Sizes``: the tiling of every pass's kernels. Pure arithmetic."""

from __future__ import annotations

import logging
from dataclasses import replace
from math import ceil

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.engines.cuda.plan.attention_tiling import plan_attentions
from vla_edge_ros.engines.cuda.plan.device_sizes import Device
from vla_edge_ros.engines.cuda.plan.kv_page import KV_FORMATS
from vla_edge_ros.engines.cuda.plan.persistent import plan_persistent
from vla_edge_ros.engines.cuda.plan.projection_tiling import ProjectionTiling, plan_projections
from vla_edge_ros.engines.cuda.plan.sizes import PassSizes, Sizes
from vla_edge_ros.engines.cuda.plan.token_rows import TILE_TOKENS, TokenRows
from vla_edge_ros.engines.cuda.plan.weight_format import BF16, FORMATS, TILE_ROWS, WeightFormat
from vla_edge_ros.errors import EngineError
from vla_edge_ros.model.action_head import answer_ids
from vla_edge_ros.model.decoder_config import DecoderConfig
from vla_edge_ros.model.quantise import format_of
from vla_edge_ros.model.tensor_shapes import EMBEDDING
from vla_edge_ros.sequence import Decoding

QKV_TOKEN_BYTES = 12 + 8 * 8  # of a block's own shared memory in qkv.cu: where a token goes, and eight turns
DRAFT_TOKENS = (8, 16, 32)  # a thread of draft_head.cu finishes rows of one token only

log = logging.getLogger(__name__)


def round_up(value: int, multiple: int) -> int:
    return ceil(value / multiple) * multiple


def plan(decoder: DecoderConfig, config: VlaConfig, device: Device) -> Sizes:
    """Raise ``EngineError`` for sizes the kernels do not have, naming what they have."""
    _check(decoder, config, device)
    pages, slots = config.cache.pages, config.cache.page_slots
    body = FORMATS[config.engine.weights]
    embedding = FORMATS[format_of(EMBEDDING, config.engine.weights)]
    kv = KV_FORMATS[config.engine.kv]
    intermediate = round_up(decoder.intermediate_size, body.tile_k)
    patch_values = round_up(config.frame.patch_size**2 * 3, BF16.tile_k)
    answers = answer_ids(config.action, decoder.vocab_size)

    variants = {
        "decode": TokenRows(0, 1),
        # A pass writes one page: a larger frame, and a suffix, take several.
        "prefill": TokenRows(round_up(min(config.frame.tokens, slots), TILE_TOKENS), 0),
    }
    drafted = _draft_tokens(config)

    def plan_passes(rows: dict[str, TokenRows]) -> dict[str, PassSizes]:
        def tilings_of(
            row_count: int, k: int, most_split_k: int, weights: WeightFormat = body, own_bytes: int = 0
        ) -> list[ProjectionTiling]:
            return plan_projections(
                list(rows.values()), ceil(row_count / TILE_ROWS), k // weights.tile_k, most_split_k,
                device.multiprocessors, device.shared_bytes - own_bytes, device.shared_bytes_sm, weights,
            )  # fmt: skip

        hidden, q_size = decoder.hidden_size, decoder.q_size
        qkv_bytes = max(kind.tokens for kind in rows.values()) * QKV_TOKEN_BYTES
        families = (
            plan_attentions(list(rows.values()), decoder, device, pages, slots, kv),
            tilings_of(q_size + 2 * decoder.kv_size, hidden, 1, own_bytes=qkv_bytes),
            tilings_of(hidden, q_size, 8),
            tilings_of(2 * intermediate, hidden, 1),
            tilings_of(hidden, intermediate, 16),
            tilings_of(len(answers), hidden, 1, embedding),
            tilings_of(hidden, patch_values, 1, BF16),
        )
        return {
            name: PassSizes(rows[name], *tilings)
            for name, tilings in zip(rows, zip(*families, strict=True), strict=True)
        }

    def plan_all() -> dict[str, PassSizes]:
        """Each kind on its own, or, where tokens shall have the same bits in all of them, together."""
        if drafted:
            together = {**variants, "drafted": TokenRows(variants["prefill"].frame, drafted)}
            try:
                return plan_passes({**together, "verify": TokenRows(0, drafted)})
            except EngineError as error:
                if config.layout.decoding is Decoding.PARALLEL:
                    raise
                log.warning("engine.draft is off: %s", error)
        return {name: plan_passes({name: rows})[name] for name, rows in variants.items()}

    sizes = Sizes(
        decoder=decoder,
        device=device,
        weights=body,
        embedding=embedding,
        kv=kv,
        pages=pages,
        page_slots=slots,
        ranks=config.cache.capacity_slots + slots,
        intermediate=intermediate,
        patch_values=patch_values,
        frame=(config.frame.width, config.frame.height, config.frame.patch_size),
        layout=config.layout,
        head_rows=len(answers),
        head_first=answers.start,
        passes=plan_all(),
    )
    if config.engine.decode_step == "kernels":
        return sizes
    persistent = plan_persistent(sizes)
    if isinstance(persistent, str):
        say = log.info if config.engine.decode_step == "auto" else log.warning
        say("a decode step is a graph of kernels: %s", persistent)
        return sizes
    return replace(sizes, persistent=persistent)


def _draft_tokens(config: VlaConfig) -> int:
    """Room for an action's tokens, the last one too, which a pass behind a frame predicts beside them."""
    tokens, parallel = config.action.tokens, config.layout.decoding is Decoding.PARALLEL
    if tokens == 1 or (config.engine.draft == "none" and not parallel):
        return 0
    if parallel and tokens > DRAFT_TOKENS[-1]:
        raise EngineError(
            f"the CUDA kernels need at most {DRAFT_TOKENS[-1]} action tokens for action.decoding parallel, "
            f"got {tokens}"
        )
    return next((room for room in DRAFT_TOKENS if room >= tokens), 0)


def _check(decoder: DecoderConfig, config: VlaConfig, device: Device) -> None:
    capability, slots = device.architecture / 10, config.cache.page_slots
    for name, value, holds, expected in (
        ("compute capability", capability, capability >= 8.0, "at least 8.0"),
        ("hidden_size", decoder.hidden_size, decoder.hidden_size % 64 == 0, "a multiple of 64"),
        ("head_dim", decoder.head_dim, decoder.head_dim in (64, 128), "64 or 128"),
        ("cache.page_slots", slots, slots in (16, 32, 48, 64), "16, 32, 48 or 64"),
    ):
        if not holds:
            raise EngineError(f"the CUDA kernels need {name} to be {expected}, got {value}")
