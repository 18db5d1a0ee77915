# SPDX-License-Identifier: Apache-2.0
"""The instruction in the cache, and how another one takes its place between two cycles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.engines.base import Engine
from vla_edge_ros.kv_cache.cache import KvCache


@dataclass(frozen=True, slots=True)
class Prompt:
    """Token ids of an instruction: ``pinned``, int64 ``[p]``, before all frames, and ``suffix`` behind each.

    Either may be empty; where the instruction stands says ``prompt.place``.
    """

    instruction: str
    pinned: NDArray[np.int64]
    suffix: tuple[int, ...] = ()


class PinnedPrompt:
    """Of one cache. Not thread-safe but for ``change``, which any thread may call.

    ``flushes``: whether the kept frames are forgotten with the instruction that they were seen under.
    """

    def __init__(self, prompt: Prompt, engine: Engine, cache: KvCache, *, flushes: bool):
        self._prompt = prompt  # the one in the cache
        self._next: Prompt | None = None
        self._engine, self._cache, self._flushes = engine, cache, flushes

    @property
    def instruction(self) -> str:
        """The one that is in use, or waits to be."""
        return (self._next or self._prompt).instruction

    @property
    def suffix(self) -> tuple[int, ...]:
        """What stands behind each frame."""
        return self._prompt.suffix

    def change(self, prompt: Prompt) -> None:
        """Use ``prompt`` from the next ``write_waiting`` on; a newer one replaces one that waits."""
        self._next = prompt

    def pin_first(self) -> None:
        """Write the pinned tokens into the cache; before any frame is kept."""
        self._pin(self._prompt)

    def write_waiting(self) -> None:
        """Take a changed instruction. One that the engine fails on is given up for the one before."""
        prompt = self._next
        if prompt is None:
            return
        if self._flushes:
            self._cache.flush()
        try:
            self._pin(prompt)
        except Exception:
            # Its pages hold garbage now. The one before has worked; it is tried until it works again.
            self._replace_waiting(prompt, self._prompt)
            raise
        self._prompt = prompt
        self._replace_waiting(prompt, None)

    def _pin(self, prompt: Prompt) -> None:
        pages = self._cache.set_prompt(len(prompt.pinned))
        if pages:
            self._engine.write_prompt(prompt.pinned, pages)

    def _replace_waiting(self, prompt: Prompt, successor: Prompt | None) -> None:
        if self._next is prompt:  # else a newer one came in meanwhile
            self._next = successor
