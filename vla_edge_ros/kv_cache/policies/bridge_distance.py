# SPDX-License-Identifier: Apache-2.0
"""``bridge`` with a distance where it has a squared one.

``1 - cosine`` is half the square of the distance between two unit vectors, so it makes small changes nearly
free. Coverage is measured in distances, and so is this cost. ``docs/explanation/memory.md`` compares the two.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.kv_cache.policies.bridge import Bridge


class BridgeDistance(Bridge):
    def difference(self, similarity: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.sqrt(1.0 - similarity)
