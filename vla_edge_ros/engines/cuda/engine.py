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
from vla_edge_ros.engines.base import Decoded, Vision
from vla_edge_ros.engines.cuda.load.device import current_device
from vla_edge_ros.engines.cuda.load.device_errors import FAILURES, device_failure, explain
from vla_edge_ros.engines.cuda.load.kernels import load_kernels, loading_sources, pass_sources
from vla_edge_ros.engines.cuda.load.memory import MB, DeviceMemory, PeakSampler, pinned_array
from vla_edge_ros.engines.cuda.load.packed_weights import PIECE_BYTES, WeightLoader, weight_needs
from vla_edge_ros.engines.cuda.plan.buffers import scratch_needs
from vla_edge_ros.engines.cuda.plan.chunk_state import LiveRows, state_dtype, write_state
from vla_edge_ros.engines.cuda.plan.sizes import plan
from vla_edge_ros.engines.cuda.run.decode_steps import DecodeSteps
from vla_edge_ros.engines.cuda.run.drafts import DraftedTokens
from vla_edge_ros.engines.cuda.run.graphs import TimedGraph, copy_to_device
from vla_edge_ros.engines.cuda.run.passes import (
    NORM_THREADS,
    Pass,
    draft_rows,
    launch_embed_drafts,
    launch_embed_frame,
)
from vla_edge_ros.engines.failures import raises_engine_errors
from vla_edge_ros.engines.numpy_ops import rope_angles
from vla_edge_ros.errors import EngineError, EngineLostError
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
        self.stream.synchronize()
        del loader
        self.buffers.give_back_unused()

    def _take_host_memory(self) -> None:
        width, height, _ = self.sizes.frame
        self._pixels = pinned_array((height, width, 3), np.uint8)
        self._token_ids = pinned_array((self.sizes.prefill.tokens,), np.int32)
        self._pooled = pinned_array((self.sizes.decoder.hidden_size,), np.float32)
        self._tokens_out = pinned_array((self.sizes.page_slots + 1,), np.int32)
        self._status = pinned_array((self.sizes.page_slots + 1,), np.int32)
        self._draft_ids = pinned_array((max(self.sizes.draft_tokens, 1),), np.int32)
        self._states = {name: pinned_array((1,), state_dtype(self.sizes.pages)) for name in self.sizes.passes}

    def _capture(self) -> None:
        """Upload and first launch included, so that no cycle pays for them."""
        sizes, memory, stream = self.sizes, self.buffers, self.stream
        out = (self._tokens_out.ctypes.data, self._status.ctypes.data)
        self.passes = {name: Pass(name, sizes, self.kernels, memory, *out) for name in sizes.passes}
        one, none = LiveRows(1), LiveRows(0)
        for name, rows in {"decode": (none, one), "prefill": (one, none), "verify": (none, one)}.items():
            if name in sizes.passes:
                write_state(self._states[name], [0], [1], sizes.page_slots, *rows)
        if sizes.draft_tokens:
            write_state(self._states["drafted"], [0, 1], [1, 1], sizes.page_slots, one, one)
        copy_to_device(stream.ptr, memory["decode_state"], self._states["decode"])

        def embed() -> None:
            launch_embed_frame(stream.ptr, sizes, self.kernels["prefill"], memory, self._pooled.ctypes.data)

        def verify() -> None:
            launch_embed_drafts(stream.ptr, sizes, self.kernels["prefill"], memory)
            self.passes["verify"].launch(stream.ptr, draft_rows(sizes, memory))

        def drafted() -> None:
            launch_embed_drafts(stream.ptr, sizes, self.kernels["prefill"], memory)
            self.passes["drafted"].launch(stream.ptr, memory["tokens_in"])

        def state_of(name: str) -> tuple[int, NDArray]:
            return memory[f"{name}_state"], self._states[name]

        self._embed = TimedGraph(stream, embed, (memory["pixels"], self._pixels))
        prefill, decode = self.passes["prefill"], self.passes["decode"]
        self._prefill = TimedGraph(
            stream, lambda: prefill.launch(stream.ptr, memory["tokens_in"]), state_of("prefill")
        )
        self.steps = DecodeSteps(stream, decode, memory, sizes)
        graphs = [self._embed, self._prefill]
        if sizes.draft_tokens:
            ids = (memory["draft_ids"], self._draft_ids)
            self._drafted_graph = TimedGraph(stream, drafted, state_of("drafted"), ids)
            self._verify_graph = TimedGraph(stream, verify, state_of("verify"), ids)
            graphs += [self._drafted_graph, self._verify_graph]
        for graph in graphs:
            graph.run()
        self.steps.choose(self._config.engine.decode_step, self._states["decode"])

    def write_prompt(self, token_ids: NDArray[np.int64], pages: Sequence[int]) -> None:
        self._require_loaded()
        slots, at_once = self.sizes.page_slots, self.sizes.prefill.tokens
        ids = np.asarray(token_ids)
        vocabulary = self.sizes.decoder.vocab_size
        if not 0 < len(ids) <= len(pages) * slots:
            raise EngineError(f"expected 1 to {len(pages) * slots} prompt tokens, got {len(ids)}")
        if ids.min() < 0 or ids.max() >= vocabulary:
            raise EngineError(f"expected token ids of 0 to {vocabulary - 1}, got {ids.min()} to {ids.max()}")
        self._view, self._embedded = None, False
        for first in range(0, len(ids), slots):
            index, end = first // slots, min(first + slots, len(ids))
            for begin in range(first, end, at_once):
                part = ids[begin : min(begin + at_once, end)]
                filled = begin - first + len(part)
                fills = [slots] * index + [filled]
                rows = LiveRows(len(part), begin - first)
                write_state(self._states["prefill"], pages[: index + 1], fills, slots, frame=rows)
                self._embed_ids(part)
                self._prefill.run()
                self._require_finite("the prompt's forward pass")

    def _embed_ids(self, ids: NDArray) -> None:
        self._token_ids[: len(ids)] = ids
        copy_to_device(self.stream.ptr, self.buffers["token_ids"], self._token_ids)
        self._launch_embed(self.buffers["tokens_in"], self.buffers["token_ids"], len(ids))

    def _launch_embed(self, target: int, ids: int, count: int) -> None:
        self.kernels["prefill"]["embed_tokens"].launch(
            self.stream.ptr, (count, 1, 1), NORM_THREADS, 0, target, ids, self.buffers["embedding"]
        )

    def embed_frame(self, pixels: NDArray[np.uint8]) -> Vision:
        self._require_loaded()
        if pixels.shape != self._pixels.shape or pixels.dtype != np.uint8:
            raise EngineError(
                f"expected uint8 pixels {self._pixels.shape}, got {pixels.dtype} {pixels.shape}"
            )
        np.copyto(self._pixels, pixels)
        self._embedded = False
        vision_ms = self._embed.run()
        self._embedded = True
        return Vision(self._pooled.copy(), vision_ms)

    def prefill(self, view: CacheView, draft: Sequence[int] = ()) -> float:
        self._require_loaded()
        if not self._embedded:
            raise EngineError("expected embed_frame before prefill")
        self._view, self._embedded = None, False
        tokens = self.sizes.frame_tokens
        if int(view.fills[-1]) != tokens:
            raise EngineError(f"expected a frame page of {tokens} vision tokens, got {int(view.fills[-1])}")
        guesses, frame, slots = self._usable(draft), LiveRows(tokens), self.sizes.page_slots
        self._first_step: int | None = None  # the first that runs as a plain step, once one is prepared
        prefill_ms = 0.0
        if guesses:
            rows = LiveRows(len(guesses))
            pages, fills = [*view.pages, view.action_page], [*view.fills, rows.count]
            write_state(self._states["drafted"], pages, fills, slots, frame, rows)
            self._draft_ids[: rows.count] = guesses
            prefill_ms = self._drafted_graph.run()
            if self._status[0]:
                guesses = []  # the frame's own may be finite: once more without
        if not guesses:
            write_state(self._states["prefill"], view.pages, view.fills, slots, frame)
            self._prefill.start()
            try:
                self._prepare_steps(view, 1)  # while the device works
            finally:
                prefill_ms += self._prefill.finish()
            self._require_finite("the prefill")
        self._action = DraftedTokens(guesses)
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
        pages, fills = np.append(view.pages, view.action_page), np.append(view.fills, settled)
        rows, at = LiveRows(1, settled - 1), settled - 1
        write_state(self._states["decode"], pages, fills, self.sizes.page_slots, action=rows, step=at)
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
        self._launch_embed(self.buffers["next_token"], ids, 1)

    def _usable(self, draft: Sequence[int]) -> list[int]:
        """What of ``draft`` a pass has room for; the last guess predicts one token more."""
        room = min(self.sizes.draft_tokens - 1, self.sizes.page_slots)
        ids = [int(token) for token in draft[: max(room, 0)]]
        for token in ids:
            if not 0 <= token < self.sizes.decoder.vocab_size:
                raise EngineError(
                    f"expected drafted tokens of 0 to {self.sizes.decoder.vocab_size - 1}, got {token}"
                )
        return ids

    def _verify(self, view: CacheView, guesses: Sequence[int]) -> float:
        """One pass over the last sure token and ``guesses`` behind it; settles what it can.

        Nothing where a guess, which may be any token, leaves what is not finite: a row's weight for those
        behind it is zero, and zero times NaN is NaN. A plain step then tells whose fault it was.
        """
        tokens = self._action.tokens
        # The last token's slot: the drafts behind it were wrong, and are overwritten.
        rows = LiveRows(1 + len(guesses), len(tokens) - 1)
        pages, fills = [*view.pages, view.action_page], [*view.fills, rows.first + rows.count]
        write_state(self._states["verify"], pages, fills, self.sizes.page_slots, action=rows)
        self._draft_ids[: rows.count] = [tokens[-1], *guesses]
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
        del self._embed, self._prefill, self.steps, self.passes, self.kernels
        for graph in ("_drafted_graph", "_verify_graph"):  # where there are drafts
            self.__dict__.pop(graph, None)

    def _require_finite(self, what: str, token: int = 0) -> None:
        if status := int(self._status[token]):
            self._view = None
            raise EngineError(f"expected finite {NOT_FINITE[status]}, got NaN or infinity from {what}")

    def _require_loaded(self) -> None:
        if self.lost:
            raise EngineLostError(self.lost)
        if not self.is_loaded:
            raise EngineError("expected load() before the engine is used, or it was closed")
