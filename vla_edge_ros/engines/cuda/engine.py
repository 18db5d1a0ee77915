# SPDX-License-Identifier: Apache-2.0
"""The CUDA engine: one chunk as captured graphs, replayed; the tokens never leave the device in between.

Start-up is a list: device, sizes, kernels, memory, weights, graphs. After it nothing is allocated and nothing
is captured; what changes from chunk to chunk lies in two small structs on the device (chunk_state.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing

import cupy
import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.engines.base import Decoded, Vision, check_view, suffix_places
from vla_edge_ros.engines.cuda.load.device import current_device
from vla_edge_ros.engines.cuda.load.device_errors import FAILURES, device_failure, explain
from vla_edge_ros.engines.cuda.load.kernels import load_kernels, loading_sources, pass_sources
from vla_edge_ros.engines.cuda.load.memory import MB, DeviceMemory, PeakSampler
from vla_edge_ros.engines.cuda.load.packed_weights import WeightLoader
from vla_edge_ros.engines.cuda.plan.buffers import scratch_needs
from vla_edge_ros.engines.cuda.plan.chunk_state import NO_ROWS, LiveRows, write_state
from vla_edge_ros.engines.cuda.plan.planner import plan
from vla_edge_ros.engines.cuda.plan.weight_buffers import PIECE_BYTES, weight_needs
from vla_edge_ros.engines.cuda.run.action_decoder import ActionDecoder
from vla_edge_ros.engines.cuda.run.decode_steps import DecodeSteps
from vla_edge_ros.engines.cuda.run.graphs import copy_to_device
from vla_edge_ros.engines.cuda.run.host_memory import HostMemory
from vla_edge_ros.engines.cuda.run.passes import Pass, set_draft_rows
from vla_edge_ros.engines.cuda.run.prefill import Pages, Prefill
from vla_edge_ros.engines.failures import raises_engine_errors
from vla_edge_ros.engines.numpy_ops import rope_angles
from vla_edge_ros.errors import EngineError, EngineLostError
from vla_edge_ros.model.action_queries import action_queries
from vla_edge_ros.model.decoder_config import resolve
from vla_edge_ros.model.weights import Weights, open_weights
from vla_edge_ros.planner.startup import below_floor
from vla_edge_ros.types import CacheView, MemoryReport

log = logging.getLogger(__name__)


@raises_engine_errors(*FAILURES, explain=explain)
class CudaEngine:
    """``engines.base.Engine`` on one GPU. For tests and benchmarks: ``sizes``, ``stream``,
    ``buffers``, ``kernels``, ``host``, ``passes`` and ``steps``.

    ``lost``: why nothing but ``close`` works any more; else empty.
    """

    name = "cuda"

    def __init__(self, config: VlaConfig, weights: Weights | None = None):
        """``weights``: those to take in place of the ones that ``config.model`` names."""
        self._config = config
        self._weights = weights
        self.is_loaded = False
        self.lost = ""

    def load(self) -> None:
        if self.is_loaded:
            return
        decoder = self._weights.config if self._weights else resolve(self._config.model)
        device = current_device()
        self.sizes = plan(decoder, self._config, device)
        if warning := below_floor(self.sizes, self._config):
            log.warning(warning)
        self._compile()
        with ExitStack() as taken:  # gives everything back where a later step fails
            needs = {**weight_needs(self.sizes), **scratch_needs(self.sizes)}
            ceiling = self._config.engine.vram_ceiling_mb * MB
            self.buffers = DeviceMemory(needs, ceiling, {"piece": PIECE_BYTES})
            taken.callback(self.buffers.close)
            self.stream = cupy.cuda.Stream(non_blocking=True)
            taken.callback(self.stream.synchronize)
            with closing(PeakSampler()) as self._sampler:  # a running engine never asks the driver
                self._load_weights()
                self._capture()
            self._taken = taken.pop_all()
        self._view: CacheView | None = None
        self._embedded = False
        self.is_loaded = True

    def _compile(self) -> None:
        sizes, device = self.sizes, self.sizes.device
        self.kernels = {"loading": load_kernels(loading_sources(), device, overlap=False)}
        for name in sizes.passes:
            self.kernels[name] = load_kernels(pass_sources(sizes, name), device, device.overlaps_kernels)

    def _load_weights(self) -> None:
        weights = self._weights or open_weights(self._config.model)

        def progress(tensor: str, done: int, whole: int) -> None:
            log.debug("weights %d of %d: %s", done, whole, tensor)

        loader = WeightLoader(self.buffers, self.kernels["loading"], weights, self.stream.ptr)
        loader.load(self.sizes, self._config.frame, self._config.model.seed, progress)
        decoder = self.sizes.decoder
        cosine, sine = rope_angles(self.sizes.ranks, decoder.head_dim, decoder.rope_theta)
        rotary = np.ascontiguousarray(np.stack([cosine, sine], axis=-1))
        self.buffers.array("rotary", np.float32, rotary.shape).set(rotary, self.stream)
        queries = action_queries(weights, self.sizes.layout, self._config.model.seed)
        self._queries = len(queries)  # rows behind each frame, in place of drafts
        if self._queries:
            set_draft_rows(self.sizes, self.buffers, queries, self.stream)
        self.stream.synchronize()
        del loader
        self.buffers.give_back_unused()

    def _capture(self) -> None:
        """Upload and first launch included, so that no cycle pays for them."""
        sizes, memory, stream = self.sizes, self.buffers, self.stream
        self.host = host = HostMemory(sizes)
        self.passes = {
            name: Pass(name, sizes, self.kernels, memory, *host.addresses_out) for name in sizes.passes
        }
        frame_row, action_row = (LiveRows(1), NO_ROWS), (NO_ROWS, LiveRows(1))
        for name, rows in {"decode": action_row, "prefill": frame_row, "verify": action_row}.items():
            if name in sizes.passes:
                write_state(host.states[name], [0], [1], sizes.page_slots, *rows)
        if sizes.draft_tokens:
            one_each = (LiveRows(1), LiveRows(1))
            write_state(host.states["drafted"], [0, 1], [1, 1], sizes.page_slots, *one_each)
        copy_to_device(stream.ptr, memory["decode_state"], host.states["decode"])
        kernels = self.kernels["prefill"]
        self._prefill = Prefill(stream, sizes, kernels, memory, self.passes, host)
        self.steps = DecodeSteps(stream, self.passes["decode"], memory, sizes)
        self._action = ActionDecoder(stream, sizes, kernels, memory, self.passes, self.steps, host)
        for graph in (*self._prefill.graphs, *self._action.graphs):
            graph.run()
        self.steps.choose(self._config.engine.decode_step, host.states["decode"])

    def write_prompt(self, token_ids: NDArray[np.int64], pages: Sequence[int]) -> None:
        self._require_loaded()
        room = len(pages) * self.sizes.page_slots
        ids = self._checked_ids(token_ids, "token ids")
        if not 0 < len(ids) <= room:
            raise EngineError(f"expected 1 to {room} prompt tokens, got {len(ids)}")
        self._view, self._embedded = None, False
        fills = self.sizes.layout.fills(len(ids))
        self._prefill.write_ids(
            Pages.of((), ()),
            Pages.of(pages[: len(fills)], fills),
            ids,
            lambda: self.host.require_finite("the prompt's forward pass"),
        )

    def _checked_ids(self, token_ids: Sequence[int] | NDArray[np.int64], what: str) -> NDArray[np.int64]:
        ids, vocabulary = np.asarray(token_ids, np.int64), self.sizes.decoder.vocab_size
        if len(ids) and (ids.min() < 0 or ids.max() >= vocabulary):
            raise EngineError(f"expected {what} of 0 to {vocabulary - 1}, got {ids.min()} to {ids.max()}")
        return ids

    def embed_frame(self, pixels: NDArray[np.uint8]) -> Vision:
        self._require_loaded()
        target = self._prefill.pixels
        if pixels.shape != target.shape or pixels.dtype != np.uint8:
            raise EngineError(f"expected uint8 pixels {target.shape}, got {pixels.dtype} {pixels.shape}")
        np.copyto(target, pixels)
        self._embedded = False
        vision_ms = self._prefill.embed_frame()
        self._embedded = True
        return Vision(self._prefill.pooled.copy(), vision_ms)

    def prefill(self, view: CacheView, draft: Sequence[int] = (), suffix: Sequence[int] = ()) -> float:
        self._require_loaded()
        if not self._embedded:
            raise EngineError("expected embed_frame before prefill")
        check_view(view, self.sizes.layout)
        ids, drafted = self._checked_ids(suffix, "suffix tokens"), self._usable(draft)
        self._view, self._embedded = None, False
        frame = Pages(view.frame_pages, self.sizes.layout.frame_fills)
        behind = Pages.of(*suffix_places(view, self.sizes.layout, len(ids)))
        *first, (last, take_rows) = self._prefill.chunk_pieces(Pages(*view.past), frame, behind, ids)
        prefill_ms = 0.0
        for piece, take in first:
            prefill_ms += self._prefill.run(piece, take)
            self.host.require_finite("the prefill")
        self._action.begin(last.seen, view.action_page)
        if rows := self._queries or len(drafted):
            self.host.draft_ids[: len(drafted)] = drafted
            prefill_ms += self._prefill.run_drafted(last, take_rows, view.action_page, rows)
            if self._queries:
                self.host.require_finite("the prefill")
            elif self.host.status[0]:
                drafted, rows = [], 0  # the frame's own may be finite: once more without
        if not rows:
            prefill_ms += self._prefill.run_last(last, take_rows, lambda: self._action.prepare_steps(1))
            self.host.require_finite("the prefill")
        if self._queries:
            self._action.take_all(rows + 1)
        else:
            self._action.take_prefill(drafted)
        self._view = view
        return prefill_ms

    def decode(
        self, view: CacheView, count: int, should_stop: Callable[[tuple[float, ...]], bool]
    ) -> Decoded:
        self._require_loaded()
        if view is not self._view:
            raise EngineError("expected decode to have the view of the prefill before it, got another")
        if not 0 < count <= self.sizes.page_slots + 1:
            raise EngineError(f"expected 1 to {self.sizes.page_slots + 1} action tokens, got {count}")
        self._view = None  # the steps overwrite what the prefill left for them
        step_ms: list[float] = []
        try:
            while (accepted := len(self._action.accepted)) < count:
                if should_stop(tuple(step_ms)):
                    return Decoded(tuple(self._action.accepted), tuple(step_ms), stopped=True)
                step_ms.append(self._action.run_pass(count))
        finally:
            if accepted < count:
                self.steps.stop()
        return Decoded(tuple(self._action.accepted[:count]), tuple(step_ms), stopped=False)

    def _usable(self, draft: Sequence[int]) -> list[int]:
        """What of ``draft`` a pass has room for; the last draft token predicts one token more."""
        if self._queries:
            return []
        room = max(0, min(self.sizes.draft_tokens - 1, self.sizes.page_slots))
        return self._checked_ids(draft[:room], "drafted tokens").tolist()

    def memory(self) -> MemoryReport:
        """``peak_bytes`` asks the driver once: for start-up and for the end, not for a cycle."""
        self._require_loaded()
        return MemoryReport(dict(self.buffers.parts), self._sampler.peak_bytes())

    def close(self) -> None:
        if not self.is_loaded:
            return
        self.is_loaded, self._view = False, None
        if self.lost:
            return  # the process gives everything back; here each piece would be one more error
        try:
            self._taken.close()
        except RuntimeError as failure:
            log.error("%s", device_failure(failure))
        del self._prefill, self._action, self.steps, self.passes, self.kernels

    def _require_loaded(self) -> None:
        if self.lost:
            raise EngineLostError(self.lost)
        if not self.is_loaded:
            raise EngineError("expected load() before the engine is used, or it was closed")
