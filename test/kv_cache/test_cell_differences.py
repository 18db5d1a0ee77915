# SPDX-License-Identifier: Apache-2.0
"""The table that is kept up to date against one that is computed anew, over any history."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vla_edge_ros.kv_cache.cell_differences import CellDifferences
from vla_edge_ros.kv_cache.descriptor import CELLS_SIZE

PLACES = 9


def picture(kind: int, seed: int) -> np.ndarray:
    """0: nothing; 1 to 3: three pictures that come again; else one of its own."""
    if kind == 0:
        return np.zeros(CELLS_SIZE)
    rng = np.random.default_rng(kind if kind <= 3 else [kind, seed])
    return rng.integers(0, 256, CELLS_SIZE).astype(float)


def novelty_anew(kept: list[np.ndarray]) -> list[int]:
    found = []
    for i, own in enumerate(kept):
        newer = [other for other in kept[i + 1 :] if other.any()]
        apart = [int(np.abs(own - other).max()) for other in newer]
        found.append(min([255, *apart]) if own.any() else 0)
    return found


def bridged_anew(kept: list[np.ndarray]) -> list[float]:
    inner = [np.sqrt(np.mean((kept[i - 1] - kept[i + 1]) ** 2)) for i in range(1, len(kept) - 1)]
    return ([0.0, *inner, 0.0] if len(kept) > 1 else [0.0])[: len(kept)]


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(-3, 6), st.integers(0, 2**31)), max_size=60))
def test_after_any_history_it_equals_what_is_computed_anew(history):
    table, kept = CellDifferences(PLACES), []
    for kind, seed in history:
        if kind < 0 and kept:
            index = seed % len(kept)
            table.remove(index)
            del kept[index]
        elif kind >= 0 and len(kept) < PLACES:
            kept.append(picture(kind, seed))
            table.append(kept[-1])
        assert table.novelty.tolist() == novelty_anew(kept)
        np.testing.assert_allclose(table.bridged, bridged_anew(kept), rtol=1e-12)
    table.clear()
    assert len(table.novelty) == len(table.bridged) == 0


@pytest.mark.parametrize(
    "cells", [np.zeros(3), np.full(CELLS_SIZE, np.nan), np.full(CELLS_SIZE, -1.0), np.full(CELLS_SIZE, 256.0)]
)
def test_what_are_no_cell_colours_is_refused_and_changes_nothing(cells):
    table = CellDifferences(PLACES)
    table.append(picture(1, 0))
    with pytest.raises(ValueError, match="384 finite cell colours of 0 to 255"):
        table.append(cells)
    assert table.novelty.tolist() == [255]
