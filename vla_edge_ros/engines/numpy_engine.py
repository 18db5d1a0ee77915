# SPDX-License-Identifier: Apache-2.0
"""The engine for any machine, and the oracle of the CUDA engine: float32, plain NumPy.

Unlike the CUDA engine it allocates scratch arrays as it goes; the large arrays are made in ``load``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.engines import numpy_ops as ops
from vla_edge_ros.engines.base import Decoded, Vision, check_view, suffix_places
from vla_edge_ros.engines.failures import HOST_FAILURES, host_failure, raises_engine_errors
from vla_edge_ros.engines.numpy_decoder import NumpyDecoder, Place, places_in, quiet
from vla_edge_ros.engines.numpy_ops import Float
from vla_edge_ros.engines.numpy_threads import limit_blas_threads
from vla_edge_ros.errors import EngineError
from vla_edge_ros.model.action_head import answer_ids
from vla_edge_ros.model.action_queries import action_queries
from vla_edge_ros.model.finite_weights import finite, require_finite_tensor
from vla_edge_ros.model.patch_embedding import patch_projection
from vla_edge_ros.model.quantise import as_kept
from vla_edge_ros.model.tensor_shapes import EMBEDDING, head_name
from vla_edge_ros.model.weights import Weights
from vla_edge_ros.types import NS_PER_MS, CacheView, MemoryReport


@raises_engine_errors(*HOST_FAILURES, explain=host_failure)
class NumpyEngine:
    """``engines.base.Engine`` in NumPy. For tests: ``hidden``, ``logits()`` and the decoder's ``kv``."""

    name = "numpy"

    def __init__(self, config: VlaConfig, weights: Weights):
        """``weights`` as they are stored; the engine computes with what ``engine.weights`` leaves of them."""
        self._config, self._layout = config, config.layout
        self._stored = finite(weights)
        self._weights = as_kept(self._stored, config.engine.weights)
        self._answer_ids = answer_ids(config.action, weights.config.vocab_size)
        self._first_id = self._answer_ids.start
        self._loaded = False
        self.hidden: Float = np.empty((0, weights.config.hidden_size), np.float32)

    def load(self) -> None:
        weights, cache = self._weights, self._config.cache
        require_finite_tensor(self._stored, EMBEDDING)
        ids = np.array(self._answer_ids)
        self.decoder = NumpyDecoder(weights, cache.pages, cache.page_slots)
        self._embedding = weights.rows(EMBEDDING, ids)
        self._head = (
            self._embedding
            if weights.config.tie_word_embeddings
            else weights.rows(head_name(weights.config), ids)
        )
        self._projection = patch_projection(self._stored, self._config.frame, self._config.model.seed)
        self._queries = action_queries(self._stored, self._layout, self._config.model.seed)
        self._vision: Float | None = None
        self._view: CacheView | None = None
        self._restore_blas_threads = limit_blas_threads(weights.config)
        self._loaded = True

    def write_prompt(self, token_ids: NDArray[np.int64], pages: Sequence[int]) -> None:
        self._require_loaded()
        slots = self._config.cache.page_slots
        if not 0 < len(token_ids) <= len(pages) * slots:
            raise EngineError(f"expected 1 to {len(pages) * slots} prompt tokens, got {len(token_ids)}")
        self._view = None  # the prompt takes the place of what an earlier chunk could see
        embedded = self._weights.rows(EMBEDDING, token_ids)
        self.decoder.see([], [])
        fills = self._layout.fills(len(embedded))
        for index, place in enumerate(places_in(pages[: len(fills)], fills)):
            self._forward(embedded[index * slots : (index + 1) * slots], [place])

    def embed_frame(self, pixels: NDArray[np.uint8]) -> Vision:
        self._require_loaded()
        expected = (self._config.frame.height, self._config.frame.width, 3)
        if pixels.shape != expected or pixels.dtype != np.uint8:
            raise EngineError(f"expected uint8 pixels {expected}, got {pixels.dtype} {pixels.shape}")
        start_ns = time.perf_counter_ns()
        self._vision = None
        self._vision = ops.patch_embed(pixels, self._projection)
        embedding = self._vision.mean(axis=0)
        return Vision(embedding, _ms_since(start_ns))

    def prefill(self, view: CacheView, draft: Sequence[int] = (), suffix: Sequence[int] = ()) -> float:
        """``draft`` is not used: here a pass over several tokens costs as much as one over each."""
        self._require_loaded()
        if self._vision is None:
            raise EngineError("expected embed_frame before prefill")
        check_view(view, self._layout)
        start_ns = time.perf_counter_ns()
        self._view = None
        rows, places = [self._vision], places_in(view.frame_pages, self._layout.frame_fills)
        if len(suffix):
            rows.append(self._weights.rows(EMBEDDING, np.asarray(suffix)))
            places += places_in(*suffix_places(view, self._layout, len(suffix)))
        if len(self._queries):
            rows.append(self._queries)
            places.append(Place(view.action_page, 0, len(self._queries)))
        self.decoder.see(*view.past)
        self._forward(np.concatenate(rows), places)
        self._tokens = self._best_tokens(1 + len(self._queries))
        self._view, self._vision, self._visible = view, None, self.decoder.visible
        return _ms_since(start_ns)

    def decode(
        self, view: CacheView, count: int, should_stop: Callable[[tuple[float, ...]], bool]
    ) -> Decoded:
        if view is not self._view:
            raise EngineError("expected decode to have the view of the prefill before it, got another")
        self.decoder.visible = self._visible
        tokens, step_ms = self._tokens[:count], list[float]()
        for step in range(count - len(tokens)):
            if should_stop(tuple(step_ms)):
                return Decoded(tuple(tokens), tuple(step_ms), stopped=True)
            start_ns = time.perf_counter_ns()
            embedded = self._embedding[tokens[-1] - self._first_id]
            self._forward(embedded[None], [Place(view.action_page, step, 1)])
            tokens += self._best_tokens(1)
            step_ms.append(_ms_since(start_ns))
        return Decoded(tuple(tokens), tuple(step_ms), stopped=False)

    def logits(self) -> Float:
        """``[t, r]`` of the last forward pass, whose normed hidden states are ``hidden`` ``[t, d]``."""
        return ops.linear(self.hidden, self._head)

    def memory(self) -> MemoryReport:
        self._require_loaded()
        embedding = self._embedding.nbytes + (0 if self._head is self._embedding else self._head.nbytes)
        parts = {**self.decoder.parts(), "embedding": embedding, "patch_projection": self._projection.nbytes}
        return MemoryReport(parts)

    def close(self) -> None:
        if self._loaded:
            del self.decoder, self._embedding, self._head, self._projection
            self._restore_blas_threads()
        self._loaded, self._view = False, None

    def _forward(self, x: Float, places: Sequence[Place]) -> None:
        self.hidden = self.decoder.forward(x, places)
        if not np.isfinite(self.hidden).all():
            raise EngineError("expected finite hidden states, got NaN or infinity from the forward pass")

    @quiet
    def _best_tokens(self, count: int) -> list[int]:
        """Behind each of the last ``count`` rows."""
        return [ops.head_argmax(row, self._head, self._first_id) for row in self.hidden[-count:]]

    def _require_loaded(self) -> None:
        if not self._loaded:
            raise EngineError("expected load() before the engine is used, or it was closed")


def _ms_since(start_ns: int) -> float:
    return (time.perf_counter_ns() - start_ns) / NS_PER_MS
