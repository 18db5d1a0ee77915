# SPDX-License-Identifier: Apache-2.0
"""What changes from chunk to chunk, as the kernels read it: ``ChunkState`` of chunk_state.cuh."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.errors import EngineError


def state_dtype(pages: int) -> np.dtype:
    """The struct's layout; all members are int32."""
    scalars = [(name, np.int32) for name in ("pages", "tokens", "first_slot", "step")]
    return np.dtype([*scalars, *((name, np.int32, (pages,)) for name in ("page", "fill", "base"))])


def write_state(
    state: NDArray,
    pages: Sequence[int] | NDArray[np.int32],
    fills: Sequence[int] | NDArray[np.int32],
    tokens: int,
    first_slot: int,
    page_slots: int,
) -> None:
    """Fill ``state`` ``[1]`` for a pass that writes ``tokens`` rows of the last page from ``first_slot`` on.

    ``fills`` counts those rows. A page's base rank is the sum of the fills before it.
    """
    pages, fills = np.asarray(pages, np.int32), np.asarray(fills, np.int32)
    capacity = state["page"].shape[-1]
    if not 0 < len(pages) <= capacity or pages.shape != fills.shape:
        raise EngineError(
            f"expected 1 to {capacity} pages with a fill each, got {len(pages)} pages, {len(fills)} fills"
        )
    if pages.min() < 0 or pages.max() >= capacity or len(np.unique(pages)) != len(pages):
        raise EngineError(f"expected distinct pages below {capacity}, got {pages.tolist()}")
    if fills.min() < 1 or fills.max() > page_slots:
        raise EngineError(f"expected fills of 1 to {page_slots}, got {fills.tolist()}")
    if first_slot + tokens != fills[-1]:
        raise EngineError(
            f"expected the last page filled to slot {first_slot + tokens} by this pass, got {int(fills[-1])}"
        )
    count = len(pages)
    state["pages"], state["tokens"], state["first_slot"], state["step"] = count, tokens, first_slot, 0
    state["page"][0, :count] = pages
    state["fill"][0, :count] = fills
    state["base"][0, :count] = np.cumsum(fills) - fills
