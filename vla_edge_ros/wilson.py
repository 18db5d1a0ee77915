# SPDX-License-Identifier: Apache-2.0
"""How far a share of successes can be trusted."""

from __future__ import annotations

import math

Z_95 = 1.959963984540054  # two-sided 95 % of a normal distribution


def wilson_interval(successes: float, trials: float, z: float = Z_95) -> tuple[float, float]:
    """The score interval of a share (Wilson, 1927), 0 to 1; it stays inside even where all trials succeed.

    Fractions are for samples that are worth fewer independent trials. Raises ``ValueError`` unless
    0 <= successes <= trials and trials >= 1.
    """
    if not 0 <= successes <= trials or trials < 1:
        raise ValueError(f"expected 0 <= successes <= trials and a trial, got {successes} of {trials}")
    share = successes / trials
    centre = share + z * z / (2 * trials)
    spread = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)
