# SPDX-License-Identifier: Apache-2.0
"""Evict the frame whose neighbours are closest in time: an even spread, blind to what frames show.

A control for the comparisons: a rule that looks at pictures has to beat it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.kv_cache.frame_memory import FrameMemory
from vla_edge_ros.kv_cache.policies.spacing import SpacingRule, gaps_ns


class TimeThinning(SpacingRule):
    """A frame costs the time that its neighbours would have to bridge."""

    descriptor = "none"

    def costs(self, memory: FrameMemory, chosen: slice) -> NDArray[np.int64]:
        return gaps_ns(memory, chosen)
