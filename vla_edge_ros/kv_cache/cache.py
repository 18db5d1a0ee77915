# SPDX-License-Identifier: Apache-2.0
"""Slot accounting of the KV cache: which page holds what, with begin, commit and rollback.

Pages, in rank order of what the model sees: the prompt's (pinned), the kept frames' in time order, the
incoming frame's. The transient pages take a chunk's suffix and action tokens and are never kept. How many
there are of each says the ``SequenceLayout``. A frame's pages follow each other physically: its block.

The incoming frame is written to a block that holds nothing, and the policy chooses what to forget when the
chunk is committed, after the newcomer is known. So a rollback at any step has nothing to give back: no kept
page was overwritten, and the frame being judged is judged against its true neighbours (faults A23, A37).
The price is one block that stays empty between two chunks.
"""

from __future__ import annotations

from types import TracebackType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vla_edge_ros.config import CacheConfig, VlaConfig
from vla_edge_ros.errors import ConfigError
from vla_edge_ros.kv_cache.descriptor import descriptor_size
from vla_edge_ros.kv_cache.eviction import EvictionPolicy
from vla_edge_ros.kv_cache.frame_memory import LARGEST_DESCRIPTOR, FrameMemory
from vla_edge_ros.sequence import SequenceLayout
from vla_edge_ros.types import CacheView


class KvCache:
    """Owned by the reasoning thread; holds no keys and values, only who sits where."""

    def __init__(
        self, config: CacheConfig, policy: EvictionPolicy, layout: SequenceLayout, descriptor_size: int = 0
    ):
        self.layout = layout
        self.room = layout.room(config.pages)
        if self.room < (0 if layout.most_frames == 0 else 1):
            raise ConfigError(
                f"cache.capacity_slots: {config.pages} pages of {config.page_slots} slots less "
                f"{layout.fixed_pages} for a chunk leave {self.room} frames of {layout.frame_tokens} tokens"
            )
        if descriptor_size > LARGEST_DESCRIPTOR:
            raise ConfigError(
                f"cache.eviction {config.eviction} compares embeddings of at most {LARGEST_DESCRIPTOR} "
                f"values, got {descriptor_size}, the model's hidden size"
            )
        self._policy = policy
        self.memory = FrameMemory(self.room + 1, descriptor_size, policy.descriptor == "cells")
        self._action_page = layout.prompt_pages
        self._suffix_pages = tuple(range(self._action_page + 1, self._action_page + 1 + layout.suffix_pages))
        self._first_frame_page = layout.prompt_pages + layout.transient_pages
        self._free = list(range(self.room, -1, -1))  # blocks; a stack with the lowest on top
        self._prompt_fills = np.zeros(0, np.int32)
        self._open = False

    @classmethod
    def for_model(cls, config: VlaConfig, policy: EvictionPolicy, hidden_size: int) -> KvCache:
        """The cache that the whole configuration asks for; ``hidden_size`` is the decoder's."""
        return cls(config.cache, policy, config.layout, descriptor_size(policy.descriptor, hidden_size))

    @property
    def incoming_block(self) -> int:
        """The block that the next chunk's frame is written to; it holds nothing."""
        return self._free[-1]

    def pages_of(self, blocks: ArrayLike) -> NDArray[np.int32]:
        """Physical pages of ``blocks`` ``[n]``, in order: ``[n * layout.frame_pages]``."""
        first = self._first_frame_page + np.asarray(blocks, np.int32)[:, None] * self.layout.frame_pages
        return (first + np.arange(self.layout.frame_pages)).ravel().astype(np.int32)

    @property
    def prompt_tokens(self) -> int:
        return int(self._prompt_fills.sum())

    @property
    def slots_in_use(self) -> int:
        """Slots of the prompt and the kept frames."""
        return self.prompt_tokens + len(self.memory) * self.layout.frame_tokens

    @property
    def slots_next(self) -> int:
        """Slots in use during the next chunk's prefill: those in use and the incoming frame's."""
        return self.slots_in_use + self.layout.frame_tokens

    def set_prompt(self, tokens: int) -> tuple[int, ...]:
        """Pin pages for a prompt of ``tokens``; return them in rank order. Frames are kept."""
        assert not self._open, "the prompt may only change between two chunks"
        room = self.layout.prompt_pages * self.layout.page_slots
        if not 0 <= tokens <= room:
            raise ConfigError(f"prompt.max_pages leaves room for 0 to {room} pinned tokens, got {tokens}")
        self._prompt_fills = self.layout.fills(tokens)
        return tuple(range(len(self._prompt_fills)))

    def flush(self) -> None:
        """Forget every frame, and how many were seen; keep the prompt."""
        assert not self._open, "a chunk is open"
        self._free += self.memory.blocks.tolist()
        self.memory.clear()

    def begin(self, sequence: int, stamp_ns: int) -> Chunk:
        """Open the transaction of one chunk. Leaving its ``with`` block without ``commit`` rolls back."""
        assert not self._open, "one chunk at a time"
        self._open = True
        return Chunk(self, sequence, stamp_ns)

    def view(self, incoming_block: int) -> CacheView:
        """What the model sees with ``incoming_block`` as the newest frame."""
        prompt, layout = len(self._prompt_fills), self.layout
        frames = self.pages_of(np.append(self.memory.blocks, incoming_block))
        pages = np.empty(prompt + len(frames), np.int32)
        pages[:prompt] = np.arange(prompt)
        pages[prompt:] = frames
        fills = np.empty(len(pages), np.int32)
        fills[:prompt] = self._prompt_fills
        fills[prompt:].reshape(-1, layout.frame_pages)[:] = layout.frame_fills
        return CacheView(pages, fills, self._action_page, layout.frame_pages, self._suffix_pages)

    def _commit(self, chunk: Chunk, descriptor: NDArray[np.float32] | None) -> int | None:
        evicted = None
        if self.room:
            self.memory.append(chunk.sequence, chunk.stamp_ns, chunk.block, descriptor)
            self._free.pop()
            if self._policy.excess(self.memory, self.room):
                entry = self.memory.remove(self._policy.choose(self.memory))
                self._free.append(entry.block)
                evicted = entry.sequence
            assert self._policy.excess(self.memory, self.room) == 0, "one frame in, at most one frame out"
        self._open = False
        return evicted

    def _rollback(self) -> None:
        self._open = False

    def state(self) -> tuple:
        """Everything that a chunk may change, for comparison in tests and debug asserts."""
        memory = self.memory
        return (
            tuple(memory.sequences.tolist()),
            tuple(memory.stamps_ns.tolist()),
            tuple(memory.blocks.tolist()),
            tuple(memory.link.tolist()),
            memory.seen,
            tuple(self._free),
            tuple(self._prompt_fills.tolist()),
            self._open,
        )


class Chunk:
    """One open transaction: the view to compute with, then ``commit`` or nothing."""

    def __init__(self, cache: KvCache, sequence: int, stamp_ns: int):
        self._cache = cache
        self._closed = False
        self.sequence = sequence
        self.stamp_ns = stamp_ns
        self.block = cache.incoming_block
        self.view = cache.view(self.block)

    def commit(self, descriptor: NDArray[np.float32] | None) -> int | None:
        """Keep the frame, where frames are remembered at all.

        Returns the sequence number of the frame that was forgotten for it, if one had to go.

        A descriptor that is not finite raises ``ValueError`` and the chunk is still open.
        """
        assert not self._closed, "committed already"
        evicted = self._cache._commit(self, descriptor)
        self._closed = True
        return evicted

    def __enter__(self) -> Chunk:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._closed:
            self._cache._rollback()
            self._closed = True
