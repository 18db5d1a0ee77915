# SPDX-License-Identifier: Apache-2.0
"""Which camera stamps can be believed, and in which order frames may follow each other."""

from __future__ import annotations

from collections import Counter

from vla_edge_ros.errors import ImageError
from vla_edge_ros.types import ABSURD_AGE_NS, NS_PER_MS, NS_PER_S


class StampRules:
    """Turns a message's stamp into one that age and order can rely on.

    A stamp that cannot be true is replaced by the time of receipt and counted by reason in ``replaced``. An
    old stamp that can be true is kept: such a frame is stale, and must look it.
    """

    def __init__(self, max_lead_ms: float):
        self._max_lead_ns = round(max_lead_ms * NS_PER_MS)
        self._newest_ns = 0
        self._last_now_ns = 0
        self.replaced: Counter[str] = Counter()

    def apply(self, seconds: int, nanoseconds: int, now_ns: int) -> int:
        """The stamp to use, in ns. ``now_ns``: the time of receipt in the same clock.

        Raises ``ImageError`` with reason ``order`` for a frame older than the newest one.
        """
        if now_ns < self._last_now_ns:  # the clock was set back (a bag starts over): order starts anew
            self._newest_ns = 0
        self._last_now_ns = now_ns
        stamp_ns = seconds * NS_PER_S + nanoseconds
        reason = self._disbelief(seconds, stamp_ns, now_ns)
        if reason:
            self.replaced[reason] += 1
            # Frames that came while a stamp up to max_lead in the future was the newest one are in order.
            stamp_ns = max(now_ns, self._newest_ns)
        if stamp_ns < self._newest_ns:
            late_ms = (self._newest_ns - stamp_ns) / NS_PER_MS
            raise ImageError("order", f"stamps must not go back, got one {late_ms:.1f} ms before the newest")
        if stamp_ns == self._newest_ns:
            stamp_ns += 1  # two frames of one coarse stamp are still two frames
        self._newest_ns = stamp_ns
        return stamp_ns

    def _disbelief(self, seconds: int, stamp_ns: int, now_ns: int) -> str:
        if seconds < 0:
            return "negative"
        if stamp_ns == 0:
            return "zero"
        if stamp_ns - now_ns > self._max_lead_ns:
            return "future"
        if now_ns - stamp_ns > ABSURD_AGE_NS:
            return "absurd"
        return ""
