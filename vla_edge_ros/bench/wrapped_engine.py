# SPDX-License-Identifier: Apache-2.0
"""What wrappers around an engine have in common: everything goes through as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.engines.base import Decoded, Engine, Vision
from vla_edge_ros.types import CacheView, MemoryReport


class WrappedEngine:
    """An ``Engine`` around another one; a subclass changes the calls that it is about."""

    def __init__(self, engine: Engine):
        self._engine = engine
        self.name = engine.name

    def load(self) -> None:
        self._engine.load()

    def write_prompt(self, token_ids: NDArray[np.int64], pages: Sequence[int]) -> None:
        self._engine.write_prompt(token_ids, pages)

    def embed_frame(self, pixels: NDArray[np.uint8]) -> Vision:
        return self._engine.embed_frame(pixels)

    def prefill(self, view: CacheView, draft: Sequence[int] = (), suffix: Sequence[int] = ()) -> float:
        return self._engine.prefill(view, draft, suffix)

    def decode(
        self, view: CacheView, count: int, should_stop: Callable[[tuple[float, ...]], bool]
    ) -> Decoded:
        return self._engine.decode(view, count, should_stop)

    def memory(self) -> MemoryReport:
        return self._engine.memory()

    def close(self) -> None:
        self._engine.close()
