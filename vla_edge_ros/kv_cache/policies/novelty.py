# SPDX-License-Identifier: Apache-2.0
"""Evict the frame that nothing is lost with: neither what only it shows, nor the way between its neighbours.

Cost of losing a frame = (how unlike every newer kept frame it is, in the cell that differs most, plus how
different the frames before and after it are) times the time it stands for.

The first term keeps a small, short event that never came again: the frames around it agree with each other
and would let it go. The second, ``bridge``'s, keeps the course of motions. Time decides between equals: one
of many pictures of a moving arm stands for a blink, a lone picture of an event for the minutes around it.
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
_BRIDGED_SCALE = 30.0


class Novelty(SpacingRule):
    """Compares cell colours."""

    descriptor = "cells"

    def costs(self, memory: FrameMemory, chosen: slice) -> NDArray[np.float64]:
        differences = memory.differences
        novelty = differences.novelty[chosen] / _NOVELTY_SCALE
        return (_STILL_COST + novelty + differences.bridged[chosen] / _BRIDGED_SCALE) * gaps_ns(
            memory, chosen
        )
