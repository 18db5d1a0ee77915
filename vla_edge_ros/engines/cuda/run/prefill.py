# SPDX-License-Identifier: Apache-2.0
"""Rows into the cache, a page at a time: a prompt's, a frame's, a suffix's, and those that ride behind.

A pass writes one page of keys and values, and at most so many rows as it was planned for. A prompt, a large
frame and a suffix are therefore computed in pieces, each over the pages before it; attention is causal, so
this gives what one pass over all rows gives. Behind the last piece ride the rows of a draft, or the learned
queries where a model decodes in parallel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import cupy
import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.engines.cuda.load.kernels import Kernel
from vla_edge_ros.engines.cuda.load.memory import DeviceMemory, pinned_array
from vla_edge_ros.engines.cuda.plan.chunk_state import LiveRows, write_state
from vla_edge_ros.engines.cuda.plan.sizes import Sizes
from vla_edge_ros.engines.cuda.run.graphs import TimedGraph, copy_on_device, copy_to_device
from vla_edge_ros.engines.cuda.run.host_memory import HostMemory
from vla_edge_ros.engines.cuda.run.passes import Pass, embed_ids, launch_embed_drafts, launch_embed_frame

FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True)
class Pages:
    """Pages and their fills, int32 ``[n]``, in rank order: what the rows behind them see."""

    pages: NDArray[np.int32]
    fills: NDArray[np.int32]

    @classmethod
    def of(cls, pages: Sequence[int], fills: Sequence[int] | NDArray[np.int32]) -> Pages:
        return cls(np.asarray(pages, np.int32), np.asarray(fills, np.int32))

    def __add__(self, other: Pages) -> Pages:
        return Pages(np.concatenate((self.pages, other.pages)), np.concatenate((self.fills, other.fills)))


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of one pass. ``seen``: the pages before them and the one they go to, filled up to them."""

    seen: Pages
    rows: LiveRows
    first: int  # row of what is split into pieces


def pieces(past: Pages, of: Pages, at_once: int) -> Iterator[Piece]:
    """Split the rows that fill ``of``, behind ``past``, into passes over at most ``at_once`` of one page."""
    done = 0
    for index, fill in enumerate(of.fills.tolist()):
        for begin in range(0, fill, at_once):
            rows = LiveRows(min(at_once, fill - begin), begin)
            seen = past + Pages(of.pages[: index + 1], of.fills[: index + 1])
            seen.fills[-1] = begin + rows.count
            yield Piece(seen, rows, done + begin)
        done += fill


class Prefill:
    """The passes with frame rows. ``pixels`` and ``pooled`` are page-locked: the next frame, its mean row."""

    def __init__(
        self,
        stream: cupy.cuda.Stream,
        sizes: Sizes,
        kernels: Mapping[str, Kernel],
        memory: DeviceMemory,
        passes: Mapping[str, Pass],
        host: HostMemory,
    ):
        self._stream, self._sizes, self._kernels, self._memory = stream, sizes, kernels, memory
        self._states = host.states
        width, height, _ = sizes.frame
        self.pixels = pinned_array((height, width, 3), np.uint8)
        self.pooled = pinned_array((sizes.decoder.hidden_size,), np.float32)
        self._ids = pinned_array((sizes.prefill.tokens,), np.int32)
        self._embed = TimedGraph(
            stream,
            lambda: launch_embed_frame(stream.ptr, sizes, kernels, memory, self.pooled.ctypes.data),
            (memory["pixels"], self.pixels),
        )
        self._plain = TimedGraph(
            stream,
            lambda: passes["prefill"].launch(stream.ptr, memory["tokens_in"]),
            (memory["prefill_state"], host.states["prefill"]),
        )
        self.graphs = [self._embed, self._plain]
        if sizes.draft_tokens:
            copies = [(memory["drafted_state"], host.states["drafted"])]
            if not sizes.has_queries:  # else those rows stay as they were loaded
                copies.append((memory["draft_ids"], host.draft_ids))

            def launch_drafted() -> None:
                if not sizes.has_queries:
                    launch_embed_drafts(stream.ptr, sizes, kernels, memory)
                passes["drafted"].launch(stream.ptr, memory["tokens_in"])

            self._drafted = TimedGraph(stream, launch_drafted, *copies)
            self.graphs.append(self._drafted)

    def embed_frame(self) -> float:
        """``pixels`` to the frame's rows, and their mean to ``pooled``; ms."""
        return self._embed.run()

    def write_ids(self, past: Pages, of: Pages, ids: NDArray, check: Callable[[], None]) -> None:
        """All passes over ``ids``, which fill ``of`` behind ``past``; ``check`` is called after each."""
        for piece in pieces(past, of, self._sizes.prefill.tokens):
            self._take_ids(ids, piece)
            self._run(piece)
            check()

    def chunk_pieces(
        self, past: Pages, frame: Pages, suffix: Pages, ids: NDArray
    ) -> Sequence[tuple[Piece, Callable[[], None]]]:
        """The passes of a frame and of the suffix ``ids`` behind it, each with what brings its rows."""
        at_once = self._sizes.prefill.tokens
        take_rows = self._take_frame_rows if len(frame.pages) > 1 else _leave_rows
        of_frame = [(piece, partial(take_rows, piece)) for piece in pieces(past, frame, at_once)]
        if not len(ids):
            return of_frame
        behind = pieces(past + frame, suffix, at_once)
        return [*of_frame, *((piece, partial(self._take_ids, ids, piece)) for piece in behind)]

    def run(self, piece: Piece, take_rows: Callable[[], None]) -> float:
        """One pass without rows behind it; ms."""
        take_rows()
        return self._run(piece)

    def run_last(self, piece: Piece, take_rows: Callable[[], None], meanwhile: Callable[[], object]) -> float:
        """The same, with ``meanwhile`` called while the device works."""
        take_rows()
        self._write_state(piece)
        self._plain.start()
        try:
            meanwhile()
        finally:
            spent_ms = self._plain.finish()
        return spent_ms

    def run_drafted(self, piece: Piece, take_rows: Callable[[], None], action_page: int, count: int) -> float:
        """The last pass with ``count`` draft or query rows behind it, in ``action_page``; ms."""
        take_rows()
        rows = LiveRows(count)
        seen = piece.seen + Pages.of([action_page], [count])
        write_state(self._states["drafted"], seen.pages, seen.fills, self._sizes.page_slots, piece.rows, rows)
        return self._drafted.run()

    def _run(self, piece: Piece) -> float:
        self._write_state(piece)
        return self._plain.run()

    def _write_state(self, piece: Piece) -> None:
        seen, slots = piece.seen, self._sizes.page_slots
        write_state(self._states["prefill"], seen.pages, seen.fills, slots, frame=piece.rows)

    def _take_ids(self, ids: NDArray, piece: Piece) -> None:
        count = piece.rows.count
        self._ids[:count] = ids[piece.first : piece.first + count]
        copy_to_device(self._stream.ptr, self._memory["token_ids"], self._ids)
        target, ids_at = self._memory["tokens_in"], self._memory["token_ids"]
        embed_ids(self._stream.ptr, self._kernels, self._memory, target, ids_at, count)

    def _take_frame_rows(self, piece: Piece) -> None:
        row = self._sizes.decoder.hidden_size * FLOAT_BYTES
        at = self._memory["frame_rows"] + piece.first * row
        copy_on_device(self._stream.ptr, self._memory["tokens_in"], at, piece.rows.count * row)


def _leave_rows(piece: Piece) -> None:
    """Those of a frame of one page are where the pass reads them."""
