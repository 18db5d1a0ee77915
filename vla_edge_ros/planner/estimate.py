# SPDX-License-Identifier: Apache-2.0
"""One model on one board: stages, memory and the shortest period, from the engine's own plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from vla_edge_ros.config import ActionConfig, CacheConfig, EngineConfig, TimingConfig, VlaConfig
from vla_edge_ros.engines.cuda.plan.buffers import scratch_needs
from vla_edge_ros.engines.cuda.plan.planner import plan
from vla_edge_ros.engines.cuda.plan.sizes import Sizes
from vla_edge_ros.engines.cuda.plan.weight_buffers import PIECE_BYTES, weight_needs
from vla_edge_ros.model.decoder_config import QWEN2_5_CODER_1_5B, DecoderConfig
from vla_edge_ros.planner.boards import Board, find_board
from vla_edge_ros.planner.coefficients import (
    FRAME,
    FRAME_AND_ACTION,
    KERNELS,
    PERSISTENT,
    PLANNED,
    Coefficients,
    coefficients,
)
from vla_edge_ros.planner.roofline import Span, floor_ms, measured_ms, range_ms
from vla_edge_ros.planner.work import Work, embed_work, pass_work
from vla_edge_ros.sequence import Decoding

PREFILL, DECODE_STEP = "prefill", "decode step"
FITTED_SLOTS = 4000  # in use in the runs that were fitted


@dataclass(frozen=True, slots=True)
class Stage:
    """``count`` passes in a chunk; the times and the bytes are of one."""

    name: str
    count: int
    bytes: float
    flop: float
    floor_ms: float
    expected: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """All that is predicted of one configuration on one board. Times in ms, memory in bytes.

    ``measured``: whether the coefficients are of this board; then spans are one number. ``period``: the
    shortest one that the chunk's 99th percentile and the node's margins fit into. ``step_kind``: empty
    where there is no decode step.
    """

    board: Board
    config: VlaConfig
    decoder: DecoderConfig
    measured: bool
    step_kind: str
    stages: tuple[Stage, ...]
    floor_ms: float
    chunk: Span
    chunk_p99: Span
    period: Span
    memory: dict[str, int]

    @property
    def passes(self) -> int:
        """Forward passes of a chunk."""
        return sum(stage.count for stage in self.stages if stage.name != "embed")

    @property
    def memory_bytes(self) -> int:
        return sum(self.memory.values())

    @property
    def memory_fits(self) -> bool:
        return self.memory_bytes <= self.board.available_bytes


def plan_config(
    weights: str = "bf16", kv: str = "bf16", decoding: str = "autoregressive", slots: int = 4096
) -> VlaConfig:
    """The node's defaults with these choices, without drafts: those save passes only while actions repeat.

    ``ConfigError`` for a value that the node does not take either.
    """
    return VlaConfig(
        engine=EngineConfig(weights=weights, kv=kv, draft="none", vram_ceiling_mb=1 << 20),
        action=ActionConfig(decoding=decoding),
        cache=CacheConfig(capacity_slots=slots),
    )


def estimate(
    board: Board,
    decoder: DecoderConfig,
    config: VlaConfig,
    slots: int | None = None,
    fitted: Coefficients | None = None,
) -> Estimate:
    """Predict ``config`` with ``slots`` slots in use, by default all, from ``fitted``, by default the file's.

    ``EngineError`` for sizes that the kernels do not have.
    """
    fitted, sizes = fitted or coefficients(), plan(decoder, config, board.device)
    kind = PERSISTENT if sizes.persistent else KERNELS
    used = config.cache.capacity_slots if slots is None else slots
    stages = [_embed_stage(board, sizes, fitted)]
    for each in _passes(sizes, config, kind):
        stages.append(_pass_stage(board, sizes, config.engine.weights, used, fitted, *each))
    chunk = Span(fitted.host_ms, fitted.host_ms)
    for stage in stages:
        chunk += stage.expected.times(stage.count)
    return Estimate(
        board=board,
        config=config,
        decoder=decoder,
        measured=board.key == fitted.board,
        step_kind=kind if any(stage.name == DECODE_STEP for stage in stages) else "",
        stages=tuple(stages),
        floor_ms=sum(stage.count * stage.floor_ms for stage in stages),
        chunk=chunk,
        chunk_p99=chunk.times(fitted.p99_factor),
        period=Span(
            _period_ms(chunk.fast, fitted, config.timing), _period_ms(chunk.slow, fitted, config.timing)
        ),
        memory=_memory(sizes, fitted),
    )


def _passes(sizes: Sizes, config: VlaConfig, step_kind: str) -> list[tuple[str, str, int]]:
    """Name, kind and number of the passes of a chunk; kinds that it does not have are left out."""
    layout = config.layout
    of_frame = sizes.frame_passes + layout.suffix_pages
    with_action = 1 if layout.decoding is Decoding.PARALLEL and sizes.draft_tokens > 0 else 0
    found = (
        (PREFILL, FRAME, of_frame - with_action),
        ("prefill with the action", FRAME_AND_ACTION, with_action),
        (DECODE_STEP, step_kind, layout.decode_steps),
    )
    return [each for each in found if each[2]]


def _embed_stage(board: Board, sizes: Sizes, fitted: Coefficients) -> Stage:
    """Kernels that hand over, as on the measured board: it has too few bytes for anything else to matter."""
    work = embed_work(sizes)
    floor = floor_ms(work, board)
    expected = fitted.embed_ms * sizes.frame_passes + floor
    return Stage("embed", 1, work.bytes, work.flop, floor, Span(expected, expected))


def _pass_stage(
    board: Board,
    sizes: Sizes,
    weights: str,
    slots: int,
    fitted: Coefficients,
    name: str,
    kind: str,
    count: int,
) -> Stage:
    work, cost = pass_work(sizes, PLANNED[kind], slots), fitted.passes[kind]
    if board.key == fitted.board:
        expected = measured_ms(work, board, cost, weights)
    else:
        slower = fitted.passes[KERNELS] if kind == PERSISTENT else cost
        by = slow_down(kind, weights, fitted)
        expected = range_ms(work, board, cost, slower, weights, fitted.best_share, by)
    return Stage(name, count, work.bytes, work.flop, floor_ms(work, board), expected)


def slow_down(kind: str, weights: str, fitted: Coefficients) -> float:
    """Expected over floor of a pass in the sizes that were fitted, on the board that was measured."""
    board, work = find_board(fitted.board), _fitted_work(fitted.board, kind, weights)
    return measured_ms(work, board, fitted.passes[kind], weights).fast / floor_ms(work, board)


@cache  # planning takes milliseconds, and every pass on every board asks
def _fitted_work(board: str, kind: str, weights: str) -> Work:
    config = plan_config(weights, decoding="parallel" if kind == FRAME_AND_ACTION else "autoregressive")
    sizes = plan(QWEN2_5_CODER_1_5B, config, find_board(board).device)
    return pass_work(sizes, PLANNED[kind], FITTED_SLOTS)


def _period_ms(chunk_ms: float, fitted: Coefficients, timing: TimingConfig) -> float:
    """Admission plans with the median before its margin; a slow chunk must still end before it is aborted."""
    before_abort = timing.publish_lead_ms + timing.recheck_margin_ms
    return max(
        chunk_ms + fitted.node_median_ms + timing.margin_ms,
        chunk_ms * fitted.p99_factor + fitted.node_p99_ms + before_abort,
    )


def _memory(sizes: Sizes, fitted: Coefficients) -> dict[str, int]:
    """Bytes: the engine's own table, summed up, and what lies outside it."""
    weights, scratch = weight_needs(sizes), scratch_needs(sizes)
    return {
        "layers": sum(size for name, size in weights.items() if name not in ("embedding", "head")),
        "embedding and head": weights["embedding"] + weights["head"],
        "KV cache": scratch["kv_cache"],
        "workspaces": sum(scratch.values()) - scratch["kv_cache"],
        "loading": PIECE_BYTES,
        "CUDA context": fitted.context_bytes,
    }


def with_changes(config: VlaConfig, *, weights: str, decoding: str, slots: int) -> VlaConfig:
    """``config`` with what a remedy changes."""
    return replace(
        config,
        engine=replace(config.engine, weights=weights),
        action=replace(config.action, decoding=decoding),
        cache=replace(config.cache, capacity_slots=slots),
    )
