# SPDX-License-Identifier: Apache-2.0
"""The page-locked memory between host and passes: states and draft tokens in, tokens and their status out."""

from __future__ import annotations

import numpy as np

from vla_edge_ros.engines.cuda.load.memory import pinned_array
from vla_edge_ros.engines.cuda.plan.chunk_state import state_dtype
from vla_edge_ros.engines.cuda.plan.sizes import Sizes
from vla_edge_ros.errors import EngineError

NOT_FINITE = {1: "hidden states", 2: "logits"}  # the status beside a token, of candidate.cuh


class HostMemory:
    """Arrays of int32.

    ``tokens_out`` and ``status`` ``[page slots + 1]``: by token of the action, or, behind a pass over draft
    tokens, by its rows. ``draft_ids`` ``[draft tokens]``. ``states``: a ``ChunkState`` ``[1]`` for each pass.
    """

    def __init__(self, sizes: Sizes):
        self.tokens_out = pinned_array((sizes.page_slots + 1,), np.int32)
        self.status = pinned_array((sizes.page_slots + 1,), np.int32)
        self.draft_ids = pinned_array((max(sizes.draft_tokens, 1),), np.int32)
        self.states = {name: pinned_array((1,), state_dtype(sizes.pages)) for name in sizes.passes}

    @property
    def addresses_out(self) -> tuple[int, int]:
        """Of ``tokens_out`` and ``status``."""
        return self.tokens_out.ctypes.data, self.status.ctypes.data

    def require_finite(self, what: str, token: int = 0) -> None:
        """``EngineError`` where ``what`` left NaN or infinity on its way to ``token``."""
        if status := int(self.status[token]):
            raise EngineError(f"expected finite {NOT_FINITE[status]}, got NaN or infinity from {what}")
