# SPDX-License-Identifier: Apache-2.0
"""How the kept frames differ, cell by cell, kept up to date as frames come and go.

All of it is in whole grey levels, so the same frames give the same answer on every machine.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.kv_cache.descriptor import CELLS_SIZE

_NOTHING_NEWER = 255


class CellDifferences:
    """For at most ``places`` frames in time order; ``append``, ``remove`` and ``clear`` as the memory's."""

    def __init__(self, places: int):
        self._cells = np.zeros((places, CELLS_SIZE), np.uint8)
        self._blank = np.zeros(places, np.bool_)
        # Rows stay where they are; ``_order`` has their numbers in time order.
        self._order = np.arange(places)
        self._between = np.zeros((places, places), np.uint8)  # by row: the largest difference of any cell
        self._novelty = np.full(places, _NOTHING_NEWER, np.uint8)  # in time order
        self._like = np.full(places, -1)  # in time order: the row that the novelty is the distance to
        self._bridged = np.zeros(places)  # in time order
        self._higher = np.empty((places, CELLS_SIZE), np.uint8)
        self._lower = np.empty((places, CELLS_SIZE), np.uint8)
        self._count = 0

    def clear(self) -> None:
        self._count = 0

    @property
    def novelty(self) -> NDArray[np.uint8]:
        """``[n]``: of each frame, the largest difference of any cell to the newer frame that is most like it.

        0 to 255 grey levels; 255 where nothing is newer, 0 for a picture of nothing. Only newer frames
        count: of two frames that look alike the older one is dispensable.
        """
        return self._novelty[: self._count]

    @property
    def bridged(self) -> NDArray[np.float64]:
        """``[n]``: how the frames before and after each differ, RMS in grey levels; 0 at both ends."""
        return self._bridged[: self._count]

    def append(self, cells: NDArray[np.float64]) -> None:
        """``cells``: ``[384]`` of ``cell_colours``. ``ValueError`` for another shape or value."""
        whole = np.asarray(cells)
        if whole.shape != (CELLS_SIZE,) or not (np.isfinite(whole) & (whole >= 0) & (whole <= 255)).all():
            raise ValueError(f"expected {CELLS_SIZE} finite cell colours of 0 to 255, got {whole!r:.200}")
        n = self._count
        row, older = int(self._order[n]), self._order[:n]
        self._cells[row] = whole
        self._blank[row] = not self._cells[row].any()
        self._novelty[n] = 0 if self._blank[row] else _NOTHING_NEWER
        self._like[n], self._bridged[n] = -1, 0.0
        self._count = n + 1
        if not n:
            return
        # Unsigned numbers: the difference is the higher less the lower.
        places = int(self._highest_row(n + 1)) + 1
        higher, lower = self._higher[:places], self._lower[:places]
        np.maximum(self._cells[:places], self._cells[row], out=higher)
        np.minimum(self._cells[:places], self._cells[row], out=lower)
        apart = np.subtract(higher, lower, out=higher).max(axis=1)
        self._between[row, :places] = self._between[:places, row] = apart
        if not self._blank[row]:
            nearer = (apart[older] <= self._novelty[:n]) & ~self._blank[older]
            self._novelty[:n][nearer] = apart[older[nearer]]
            self._like[:n][nearer] = row
        if n > 1:
            self._bridge(n - 1)

    def remove(self, index: int) -> None:
        """Forget frame ``index`` in time order."""
        n, gone = self._count, int(self._order[index])
        self._order[index : n - 1] = self._order[index + 1 : n].copy()
        self._order[n - 1] = gone
        for kept in (self._novelty, self._like, self._bridged):
            kept[index : n - 1] = kept[index + 1 : n].copy()
        self._count = n - 1
        for orphan in np.flatnonzero(self._like[:index] == gone):
            self._look_again(int(orphan))
        for neighbour in (index - 1, index):
            if 0 <= neighbour < self._count:
                self._bridge(neighbour)

    def _highest_row(self, count: int) -> int:
        return int(self._order[:count].max())

    def _look_again(self, index: int) -> None:
        """The frame that ``index`` was like is gone: find the next one."""
        newer = self._order[index + 1 : self._count]
        newer = newer[~self._blank[newer]]
        if not len(newer):
            self._novelty[index], self._like[index] = _NOTHING_NEWER, -1
            return
        apart = self._between[self._order[index], newer]
        best = int(apart.argmin())
        self._novelty[index], self._like[index] = apart[best], newer[best]

    def _bridge(self, index: int) -> None:
        if not 0 < index < self._count - 1:
            self._bridged[index] = 0.0
            return
        before, after = self._cells[self._order[index - 1]], self._cells[self._order[index + 1]]
        apart = before.astype(np.float64) - after
        self._bridged[index] = np.sqrt(apart.dot(apart) / CELLS_SIZE)  # sums of whole numbers are exact
