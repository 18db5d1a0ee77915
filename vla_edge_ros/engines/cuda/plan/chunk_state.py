# SPDX-License-Identifier: Apache-2.0
"""What changes from chunk to chunk, as the kernels read it: ``ChunkState`` of chunk_state.cuh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.errors import EngineError


@dataclass(frozen=True, slots=True)
class LiveRows:
    """``count`` tokens of a pass that go to the slots from ``first`` on."""

    count: int
    first: int = 0


NO_ROWS = LiveRows(0)


def state_dtype(pages: int) -> np.dtype:
    """The struct's layout; all members are int32."""
    rows = np.dtype([("count", np.int32), ("first", np.int32)])
    lists = ((name, np.int32, (pages,)) for name in ("page", "fill", "base"))
    return np.dtype([("pages", np.int32), ("frame", rows), ("action", rows), ("step", np.int32), *lists])


def write_state(
    state: NDArray,
    pages: Sequence[int] | NDArray[np.integer],
    fills: Sequence[int] | NDArray[np.integer],
    page_slots: int,
    frame: LiveRows = NO_ROWS,
    action: LiveRows = NO_ROWS,
    step: int = 0,
) -> None:
    """Fill ``state`` ``[1]`` for a pass over the live rows of ``frame``, of ``action``, or of both.

    They are written to the last page, or to the last two, the frame's first. ``fills`` counts them. A page's
    base rank is the sum of the fills before it. ``step``: action tokens accepted before single steps.
    """
    pages, fills = np.asarray(pages, np.int32), np.asarray(fills, np.int32)
    capacity = state["page"].shape[-1]
    written = [rows for rows in (frame, action) if rows.count > 0]
    if not 0 < len(pages) <= capacity or pages.shape != fills.shape:
        raise EngineError(
            f"expected 1 to {capacity} pages with a fill each, got {len(pages)} pages, {len(fills)} fills"
        )
    # Counted, not sorted: this stands before each pass, on the host.
    if pages.min() < 0 or pages.max() >= capacity or np.bincount(pages).max() > 1:
        raise EngineError(f"expected distinct pages below {capacity}, got {pages.tolist()}")
    if fills.min() < 1 or fills.max() > page_slots:
        raise EngineError(f"expected fills of 1 to {page_slots}, got {fills.tolist()}")
    ends = [rows.first + rows.count for rows in written]
    if not ends or fills[-len(ends) :].tolist() != ends:
        raise EngineError(
            f"expected the last pages filled to slots {ends} by this pass, got {fills[-len(ends) :].tolist()}"
        )
    count = len(pages)
    state["pages"], state["step"] = count, step
    state["frame"], state["action"] = (frame.count, frame.first), (action.count, action.first)
    state["page"][0, :count] = pages
    state["fill"][0, :count] = fills
    state["base"][0, :count] = np.cumsum(fills) - fills
