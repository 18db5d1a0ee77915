# SPDX-License-Identifier: Apache-2.0
"""The one rule for quantiles that are reported: always a sample, never a value between two.

A quantile that is interpolated would name a latency that no message had.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

from numpy.typing import NDArray


def quantile(ordered: Sequence[Any] | NDArray[Any], share: float) -> Any:
    """The least of the sorted samples that stands at ``share`` of the way to the last one, or behind it.

    ``ordered``: ascending, at least one; ``share`` in [0, 1]. ``numpy.quantile`` calls this rule "higher".
    """
    return ordered[ceil(share * (len(ordered) - 1))]
