# SPDX-License-Identifier: Apache-2.0
"""The frames in the cache, in time order, with the similarities that eviction policies compare.

A policy asks "how alike are neighbours?" at every step, so the answers are kept rather than recomputed: an
append takes at most three dot products (its norm and two similarities), a removal at most two.

Similarities are the same number on every machine. A descriptor is rounded to integers before its dot
products, whose sums then fit a float64 exactly, in whatever order a BLAS adds them up; what is below a
millionth is rounded away, so that sensor noise cannot decide a tie. They are within [-1, 1], whatever the
rounding did to a descriptor's length: a policy may take the root of 1 - similarity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vla_edge_ros.kv_cache.cell_differences import CellDifferences
from vla_edge_ros.types import NS_PER_S

LARGEST_DESCRIPTOR = 4096
_UNIT = 2.0**24  # length of a stored descriptor: sums of products stay below 2**48, exact in float64
_RANGE = 2.0**20  # largest component before normalising: 2**12 squares of it still sum exactly
_SIMILARITY_STEP = 2.0**-20

# One step of the memory's clock. Never zero: frames without stamps are then spaced by their order. Never
# more than a minute: a pause, or a clock set forward, must not make its two edges worth more than all else.
_SHORTEST_STEP_NS = 1
_LONGEST_STEP_NS = 60 * NS_PER_S


@dataclass(frozen=True, slots=True)
class FrameEntry:
    """One kept frame: its camera sequence number, header stamp and block of pages."""

    sequence: int
    stamp_ns: int
    block: int


class FrameMemory:
    """At most ``capacity_frames`` frames, and one more between an append and the eviction it causes.

    ``descriptor_size`` is 0 where the policy compares no pictures; all similarities are then 1. ``by_cells``:
    descriptors are cell colours, compared by ``differences`` instead, and similarities are 1 as well. Array
    properties are views in time order, valid until the next ``append``, ``remove`` or ``clear``; never write
    to them.
    """

    def __init__(self, capacity_frames: int, descriptor_size: int, by_cells: bool = False) -> None:
        if capacity_frames < 1 or not 0 <= descriptor_size <= LARGEST_DESCRIPTOR:
            raise ValueError(
                f"expected capacity_frames >= 1 and descriptor_size in 0..{LARGEST_DESCRIPTOR}, "
                f"got {capacity_frames} and {descriptor_size}"
            )
        self.capacity_frames = capacity_frames
        self.descriptor_size = descriptor_size
        places = capacity_frames + 1
        # One table for each type, so that a removal moves each with one copy.
        self._integers = np.zeros((4, places), np.int64)
        self._sequences, self._stamps_ns, self._times_ns, self._blocks = self._integers
        self._similarities = np.zeros((2, places), np.float64)
        self._links, self._skips = self._similarities
        # Rows stay where they are and only their numbers move: an embedding is 12 KB, its number 8 bytes.
        self._rows = list(range(places))
        self._descriptors = np.zeros((places, 0 if by_cells else descriptor_size), np.float64)
        self._blank = [False] * places
        self._differences = CellDifferences(places) if by_cells else None
        self.clear()

    def clear(self) -> None:
        """Forget all frames, also how many were seen."""
        self._count = 0
        self.seen = 0
        if self._differences:
            self._differences.clear()

    def __len__(self) -> int:
        return self._count

    @property
    def sequences(self) -> NDArray[np.int64]:
        """Camera sequence numbers ``[n]``, strictly rising."""
        return self._sequences[: self._count]

    @property
    def stamps_ns(self) -> NDArray[np.int64]:
        """Header stamps ``[n]`` as they came; they may go back where the camera's clock did."""
        return self._stamps_ns[: self._count]

    @property
    def times_ns(self) -> NDArray[np.int64]:
        """Strictly rising times ``[n]``, for gaps: a step back counts as 1 ns, a pause as 60 s at most."""
        return self._times_ns[: self._count]

    @property
    def blocks(self) -> NDArray[np.int64]:
        """Blocks of pages ``[n]``: where each frame's keys and values are (``KvCache.pages_of``)."""
        return self._blocks[: self._count]

    @property
    def link(self) -> NDArray[np.float64]:
        """``[n - 1]``: similarity of frames ``i`` and ``i + 1``. A blank frame counts as a duplicate: 1."""
        return self._links[: max(0, self._count - 1)]

    @property
    def skip(self) -> NDArray[np.float64]:
        """``[n]``: similarity of frames ``i - 1`` and ``i + 1``, which ``i`` connects; 0 at both ends.

        A blank frame resembles blank frames only here: it cannot vouch that its neighbour is dispensable.
        """
        return self._skips[: self._count]

    @property
    def differences(self) -> CellDifferences:
        """Differences cell by cell; only in a memory that was made for them."""
        assert self._differences is not None, "made without by_cells"
        return self._differences

    def append(self, sequence: int, stamp_ns: int, block: int, descriptor: ArrayLike | None) -> None:
        """Add the newest frame, when its chunk is committed.

        ``descriptor``: ``[descriptor_size]`` of any length (norm); zeros mean a blank picture; None where
        ``descriptor_size`` is 0. Raises ValueError, before anything changes, for a wrong shape, a value
        that is not finite, or a sequence number that does not rise.
        """
        n = self._count
        assert n <= self.capacity_frames, "append to a full memory: evict first"
        if n and sequence <= self._sequences[n - 1]:
            raise ValueError(f"expected a sequence above {self._sequences[n - 1]}, got {sequence}")
        unit = self._taken(descriptor)

        row = self._rows[n]
        self._descriptors[row] = unit
        self._blank[row] = not unit.any()
        step_ns = stamp_ns - int(self._stamps_ns[n - 1]) if n else 0
        step_ns = min(max(step_ns, _SHORTEST_STEP_NS), _LONGEST_STEP_NS)
        self._sequences[n] = sequence
        self._stamps_ns[n] = stamp_ns
        self._times_ns[n] = self._times_ns[n - 1] + step_ns if n else 0
        self._blocks[n] = block
        self._skips[n] = 0.0
        self._count = n + 1
        self.seen += 1
        if n:
            self._links[n - 1] = self._similarity(n - 1, n, blank=1.0)
        if n > 1:
            self._skips[n - 1] = self._similarity(n - 2, n, blank=0.0)

    def remove(self, index: int) -> FrameEntry:
        """Forget frame ``index`` (in time order) and return it; its neighbours become each other's."""
        n = self._count
        assert 0 <= index < n, f"no frame {index} among {n}"
        entry = FrameEntry(int(self._sequences[index]), int(self._stamps_ns[index]), int(self._blocks[index]))
        row = self._rows[index]
        joined = 0 < index < n - 1
        new_link = self._skips[index]
        if joined and (self._blank[self._rows[index - 1]] or self._blank[self._rows[index + 1]]):
            new_link = 1.0

        self._integers[:, index : n - 1] = self._integers[:, index + 1 : n]
        self._similarities[:, index : n - 1] = self._similarities[:, index + 1 : n]
        if self._differences:
            self._differences.remove(index)
        del self._rows[index]
        self._rows.insert(n - 1, row)
        self._count = n = n - 1

        if joined:
            self._links[index - 1] = new_link
        for middle in (index - 1, index):
            if 0 < middle < n - 1:
                self._skips[middle] = self._similarity(middle - 1, middle + 1, blank=0.0)
            elif 0 <= middle < n:
                self._skips[middle] = 0.0
        return entry

    def _taken(self, descriptor: ArrayLike | None) -> NDArray[np.float64]:
        """What the cosines are made of; cells go to their own table."""
        if self._differences is None:
            return self._normalised(descriptor)
        if descriptor is None:
            raise ValueError(f"expected a descriptor of {self.descriptor_size} values, got none")
        self._differences.append(np.asarray(descriptor, np.float64))
        return np.zeros(0)

    def _normalised(self, descriptor: ArrayLike | None) -> NDArray[np.float64]:
        """Integers of length ``_UNIT``, or zeros."""
        if descriptor is None:
            if self.descriptor_size:
                raise ValueError(f"expected a descriptor of {self.descriptor_size} values, got none")
            return np.zeros(0)
        values = np.asarray(descriptor, np.float64)
        if values.shape != (self.descriptor_size,):
            raise ValueError(f"expected a descriptor of shape ({self.descriptor_size},), got {values.shape}")
        peak = float(np.abs(values).max(initial=0.0))
        if not math.isfinite(peak):
            raise ValueError("expected a finite descriptor, got NaN or infinity")
        if peak == 0.0:
            return values
        whole = np.rint(values / peak * _RANGE)
        return np.rint(whole * (_UNIT / math.sqrt(self._dot(whole, whole))))

    def _similarity(self, first: int, second: int, blank: float) -> float:
        """Cosine of two kept frames on a grid of 2**-20, in [-1, 1]; ``blank`` where one shows nothing."""
        a, b = self._rows[first], self._rows[second]
        if self._blank[a] or self._blank[b]:
            return 1.0 if self._blank[a] and self._blank[b] else blank
        cosine = self._dot(self._descriptors[a], self._descriptors[b]) / _UNIT**2
        # Rounded to integers a descriptor of few grey levels may be longer than 1 by more than a step.
        return min(max(round(cosine / _SIMILARITY_STEP) * _SIMILARITY_STEP, -1.0), 1.0)

    @staticmethod
    def _dot(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
        return float(a.dot(b))
