# SPDX-License-Identifier: Apache-2.0
"""The one seam between scheduling and computing.

The control loop holds an ``Engine`` and never asks which one. An engine owns weights, the physical KV
storage ``[layer, K or V, page, kv head, slot in page, head size]`` and all scratch memory; which page holds
what is the business of ``kv_cache.KvCache``, which hands over a ``CacheView`` a chunk.

All methods are called from one thread, the reasoning thread. Calls that wait for a device do not hold the
GIL. A failed forward pass raises ``EngineError``; the pages of the chunk are then garbage and rolled back,
those of earlier frames are untouched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.errors import EngineError
from vla_edge_ros.sequence import SequenceLayout
from vla_edge_ros.types import CacheView, MemoryReport


@dataclass(frozen=True, slots=True)
class Vision:
    """``embedding``: float32 ``[hidden]``, the mean of the frame's vision tokens, read back to the host."""

    embedding: NDArray[np.float32]
    vision_ms: float


@dataclass(frozen=True, slots=True)
class Decoded:
    """``tokens``: the action tokens, the prefill's first; fewer than asked for where ``stopped``.

    ``step_ms``: one entry for each pass behind the prefill; accepted draft tokens make them fewer.
    """

    tokens: tuple[int, ...]
    step_ms: tuple[float, ...]
    stopped: bool


def check_view(view: CacheView, layout: SequenceLayout) -> None:
    """``EngineError`` where the view's frame has not the pages and fills that the layout gives a frame."""
    fills, expected = view.fills[-view.frame_page_count :], layout.frame_fills
    if fills.tolist() != expected.tolist():
        raise EngineError(
            f"expected a frame of {layout.frame_tokens} vision tokens in pages filled to "
            f"{expected.tolist()}, got {fills.tolist()}"
        )


def suffix_places(
    view: CacheView, layout: SequenceLayout, tokens: int
) -> tuple[tuple[int, ...], NDArray[np.int32]]:
    """The pages that a suffix of ``tokens`` takes, and their fills; ``EngineError`` where it is too long."""
    room = len(view.suffix_pages) * layout.page_slots
    if tokens > room:
        raise EngineError(f"expected a suffix of at most {room} tokens, got {tokens}")
    fills = layout.fills(tokens)
    return view.suffix_pages[: len(fills)], fills


class Engine(Protocol):
    """A decoder with a paged KV cache, driven a chunk at a time.

    One chunk is ``embed_frame``, ``prefill``, ``decode`` with the same view. The prefill's last row gives
    the first action token, so ``decode(view, n, ...)`` runs ``n - 1`` steps, or fewer where draft tokens are
    accepted. Where the layout decodes in parallel the prefill gives all tokens, and no step is run.
    """

    name: str

    def load(self) -> None:
        """Take weights and all memory, compile what must be compiled. Nothing is allocated after it."""
        ...

    def write_prompt(self, token_ids: NDArray[np.int64], pages: Sequence[int]) -> None:
        """Compute keys and values of ``token_ids`` ``[p]`` from rank 0 into ``pages``, filled in order."""
        ...

    def embed_frame(self, pixels: NDArray[np.uint8]) -> Vision:
        """Patch-embed ``pixels`` ``[height, width, 3]`` into this chunk's vision tokens."""
        ...

    def prefill(self, view: CacheView, draft: Sequence[int] = (), suffix: Sequence[int] = ()) -> float:
        """Run all layers over the vision tokens and ``suffix``, store keys and values; return ms.

        ``draft``: draft tokens for the action, which an engine may verify in the same pass. They change
        the time that a chunk takes and never its tokens. ``suffix``: token ids behind the frame, at most
        ``SequenceLayout.suffix_tokens``; nothing of them is kept.
        """
        ...

    def decode(
        self, view: CacheView, count: int, should_stop: Callable[[tuple[float, ...]], bool]
    ) -> Decoded:
        """Produce ``count`` action tokens; before each pass ``should_stop(step_ms so far)`` is asked."""
        ...

    def memory(self) -> MemoryReport:
        """What the engine's parts take, for the start-up table and diagnostics."""
        ...

    def close(self) -> None:
        """Give everything back; safe to call twice."""
        ...
