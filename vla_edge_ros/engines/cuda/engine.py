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
from vla_edge_ros.engines.cuda.load.memory import MB, DeviceMemory, PeakSampler, pinned_array
from vla_edge_ros.engines.cuda.load.packed_weights import PIECE_BYTES, WeightLoader, weight_needs
from vla_edge_ros.engines.cuda.plan.buffers import scratch_needs
from vla_edge_ros.engines.cuda.plan.chunk_state import NO_ROWS, LiveRows, state_dtype, write_state
from vla_edge_ros.engines.cuda.plan.planner import plan
from vla_edge_ros.engines.cuda.run.decode_steps import DecodeSteps
from vla_edge_ros.engines.cuda.run.drafts import DraftedTokens
from vla_edge_ros.engines.cuda.run.graphs import TimedGraph, copy_to_device
from vla_edge_ros.engines.cuda.run.passes import Pass, draft_rows, launch_embed_drafts, set_draft_rows
from vla_edge_ros.engines.cuda.run.prefill import Pages, Prefill
from vla_edge_ros.engines.failures import raises_engine_errors
from vla_edge_ros.engines.numpy_ops import rope_angles
from vla_edge_ros.errors import EngineError, EngineLostError
from vla_edge_ros.model.action_queries import action_queries
from vla_edge_ros.model.decoder_config import resolve
from vla_edge_ros.model.weights import Weights, open_weights
from vla_edge_ros.types import CacheView, MemoryReport

log = logging.getLogger(__name__)


NOT_FINITE = {1: "hidden states", 2: "logits"}  # the status beside a token, of candidate.cuh


@raises_engine_errors(*FAILURES, explain=explain)
class CudaEngine:
    """``engines.base.Engine`` on one GPU. For tests and benchmarks: ``sizes``, ``stream``,
    ``buffers``, ``kernels``, ``passes`` and ``steps``.

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
                self._take_host_memory()
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

    def _take_host_memory(self) -> None:
        self._tokens_out = pinned_array((self.sizes.page_slots + 1,), np.int32)
        self._status = pinned_array((self.sizes.page_slots + 1,), np.int32)
        self._draft_ids = pinned_array((max(self.sizes.draft_tokens, 1),), np.int32)
        self._states = {name: pinned_array((1,), state_dtype(self.sizes.pages)) for name in self.sizes.passes}

    def _capture(self) -> None:
        """Upload and first launch included, so that no cycle pays for them."""
        sizes, memory, stream = self.sizes, self.buffers, self.stream
        out = (self._tokens_out.ctypes.data, self._status.ctypes.data)
        self.passes = {name: Pass(name, sizes, self.kernels, memory, *out) for name in sizes.passes}
        frame_row, action_row = (LiveRows(1), NO_ROWS), (NO_ROWS, LiveRows(1))
        for name, rows in {"decode": action_row, "prefill": frame_row, "verify": action_row}.items():
            if name in sizes.passes:
                write_state(self._states[name], [0], [1], sizes.page_slots, *rows)
        if sizes.draft_tokens:
            one_each = (LiveRows(1), LiveRows(1))
            write_state(self._states["drafted"], [0, 1], [1, 1], sizes.page_slots, *one_each)
        copy_to_device(stream.ptr, memory["decode_state"], self._states["decode"])
        kernels = self.kernels["prefill"]
        self._prefill = Prefill(stream, sizes, kernels, memory, self.passes, self._states, self._draft_ids)
        self.steps = DecodeSteps(stream, self.passes["decode"], memory, sizes)
        graphs = list(self._prefill.graphs)
        self._verify_graph: TimedGraph | None = None
        if sizes.draft_tokens and not sizes.has_queries:

            def verify() -> None:
                launch_embed_drafts(stream.ptr, sizes, kernels, memory)
                self.passes["verify"].launch(stream.ptr, draft_rows(sizes, memory))

            copies = (
                (memory["verify_state"], self._states["verify"]),
                (memory["draft_ids"], self._draft_ids),
            )
            self._verify_graph = TimedGraph(stream, verify, *copies)
            graphs.append(self._verify_graph)
        for graph in graphs:
            graph.run()
        self.steps.choose(self._config.engine.decode_step, self._states["decode"])

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
            lambda: self._require_finite("the prompt's forward pass"),
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
        ids, guesses = self._checked_ids(suffix, "suffix tokens"), self._usable(draft)
        self._view, self._embedded = None, False
        self._first_step: int | None = None
        frame = Pages(view.frame_pages, self.sizes.layout.frame_fills)
        behind = Pages.of(*suffix_places(view, self.sizes.layout, len(ids)))
        *first, (last, take_rows) = self._prefill.chunk_pieces(Pages(*view.past), frame, behind, ids)
        prefill_ms = 0.0
        for piece, take in first:
            prefill_ms += self._prefill.run(piece, take)
            self._require_finite("the prefill")
        self._seen = last.seen
        if rows := self._queries or len(guesses):
            self._draft_ids[: len(guesses)] = guesses
            prefill_ms += self._prefill.run_drafted(last, take_rows, view.action_page, rows)
            if self._queries:
                self._require_finite("the prefill")
            elif self._status[0]:
                guesses, rows = [], 0  # the frame's own may be finite: once more without
        if not rows:
            prefill_ms += self._prefill.run_last(last, take_rows, lambda: self._prepare_steps(view, 1))
            self._require_finite("the prefill")
        self._action = DraftedTokens(guesses)
        if self._queries:
            self._action.settle_all(self._tokens_out[: rows + 1].tolist())
        else:
            self._action.settle(self._tokens_out.tolist(), guesses)
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
            while (settled := len(self._action.tokens)) < count:
                if should_stop(tuple(step_ms)):
                    return Decoded(tuple(self._action.tokens), tuple(step_ms), stopped=True)
                guesses = self._action.guesses(count)
                step_ms.append(self._verify(view, guesses) if guesses else self._plain_step(view, count))
        finally:
            if settled < count:
                self.steps.stop()
        return Decoded(tuple(self._action.tokens[:count]), tuple(step_ms), stopped=False)

    def _prepare_steps(self, view: CacheView, settled: int) -> int:
        """For plain steps from the last of ``settled`` tokens on, in a row; returns ``settled``."""
        self._first_step = settled
        seen = self._seen + Pages.of([view.action_page], [settled])
        rows, at = LiveRows(1, settled - 1), settled - 1
        slots = self.sizes.page_slots
        write_state(self._states["decode"], seen.pages, seen.fills, slots, action=rows, step=at)
        copy_to_device(self.stream.ptr, self.buffers["decode_state"], self._states["decode"])
        return settled

    def _plain_step(self, view: CacheView, count: int) -> float:
        """Settles one token."""
        at = len(self._action.tokens)
        first = self._first_step
        if first is None:  # guesses were settled before
            first = self._prepare_steps(view, at)
            self._embed_last_token()
        step_ms = self.steps.run(at - first, count - first)
        self._require_finite(f"decode step {at}", at)
        self._action.settle([int(self._tokens_out[at])], ())
        return step_ms

    def _embed_last_token(self) -> None:
        """As the next step's input; a prefill without guesses has left it there."""
        ids = self.buffers["draft_ids"]
        self._draft_ids[0] = self._action.tokens[-1]
        copy_to_device(self.stream.ptr, ids, self._draft_ids)
        self._prefill.embed_ids(self.buffers["next_token"], ids, 1)

    def _usable(self, draft: Sequence[int]) -> list[int]:
        """What of ``draft`` a pass has room for; the last guess predicts one token more."""
        if self._queries:
            return []
        room = max(0, min(self.sizes.draft_tokens - 1, self.sizes.page_slots))
        return self._checked_ids(draft[:room], "drafted tokens").tolist()

    def _verify(self, view: CacheView, guesses: Sequence[int]) -> float:
        """One pass over the last sure token and ``guesses`` behind it; settles what it can.

        Nothing where a guess, which may be any token, leaves what is not finite: a row's weight for those
        behind it is zero, and zero times NaN is NaN. A plain step then tells whose fault it was.
        """
        tokens = self._action.tokens
        # The last token's slot: the drafts behind it were wrong, and are overwritten.
        rows = LiveRows(1 + len(guesses), len(tokens) - 1)
        seen = self._seen + Pages.of([view.action_page], [rows.first + rows.count])
        write_state(self._states["verify"], seen.pages, seen.fills, self.sizes.page_slots, action=rows)
        self._draft_ids[: rows.count] = [tokens[-1], *guesses]
        assert self._verify_graph is not None, "guesses need a plan with drafts"
        step_ms = self._verify_graph.run()
        if self._status[0]:
            self._action.give_up_guessing()
        else:
            self._action.settle(self._tokens_out.tolist(), guesses)
        return step_ms

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
        del self._prefill, self._verify_graph, self.steps, self.passes, self.kernels

    def _require_finite(self, what: str, token: int = 0) -> None:
        if status := int(self._status[token]):
            self._view = None
            raise EngineError(f"expected finite {NOT_FINITE[status]}, got NaN or infinity from {what}")

    def _require_loaded(self) -> None:
        if self.lost:
            raise EngineLostError(self.lost)
        if not self.is_loaded:
            raise EngineError("expected load() before the engine is used, or it was closed")
