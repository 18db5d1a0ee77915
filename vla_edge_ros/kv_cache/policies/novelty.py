# SPDX-License-Identifier: Apache-2.0
"""Evict the frame that nothing is lost with: neither what only it shows, nor the way between its neighbours.

Cost of losing a frame = how unlike every newer kept frame it is (in the cell that differs most) times the
time between the frames before and after it that show something of their own, plus how different its two
neighbours are times the time between them (``bridge``).

The first term keeps a small, short event that never came again: the frames around it agree with each other
and would let it go. Time decides between equals: one of many pictures of a moving arm stands for a blink, a
lone picture of an event for the minutes around it. The second term keeps the course of motions.
Why it is the default: docs/explanation/memory.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.kv_cache.frame_memory import FrameMemory
from vla_edge_ros.kv_cache.policies.spacing import SpacingRule, gaps_ns

# What a frame costs where nothing changes at all: it spreads the frames of a still scene evenly in time.
_STILL_COST = 0.01
# Grey levels that weigh as much as a change of the whole scene.
_NOVELTY_SCALE = 100.0
_BRIDGED_SCALE = 60.0
# Grey levels from which on a frame shows something of its own; a cell's noise is below one.
_OF_ITS_OWN = 20


class Novelty(SpacingRule):
    """Compares cell colours."""

    descriptor = "cells"

    def costs(self, memory: FrameMemory, chosen: slice) -> NDArray[np.float64]:
        differences, gaps = memory.differences, gaps_ns(memory, chosen)
        course = (_STILL_COST + differences.bridged[chosen] / _BRIDGED_SCALE) * gaps
        return course + differences.novelty[chosen] / _NOVELTY_SCALE * self._spans_ns(memory, chosen, gaps)

    @staticmethod
    def _spans_ns(memory: FrameMemory, chosen: slice, gaps: NDArray[np.int64]) -> NDArray[np.int64]:
        """``gaps``, but for a frame with something of its own the time between the two others like that."""
        times = memory.times_ns
        places = np.flatnonzero(memory.differences.novelty >= _OF_ITS_OWN)
        bounds = np.concatenate([[0], places, [len(times) - 1]])
        spans_ns = times[bounds[2:]] - times[bounds[:-2]]
        inside = (places >= chosen.start) & (places < chosen.stop)
        result = gaps.copy()
        result[places[inside] - chosen.start] = spans_ns[inside]
        return result
