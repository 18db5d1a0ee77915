# SPDX-License-Identifier: Apache-2.0
"""How many of the images that a camera sent did not arrive.

A publisher numbers its messages, and some middlewares tell the number: then a gap is a loss. Where they do
not, stamps must do: images that stand on a grid, some of whose places are empty without a rule.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

WINDOW_S = 10.0
# Neither an image nor a look for so long: the executor itself stood still (a slow transition), and what its
# queue of one dropped meanwhile was no loss on the way.
STANDSTILL_S = 0.5

MAX_PUBLISHERS = 8
LATE_BY_AT_MOST = 100  # a number further back is that of a publisher that began anew

# A grid is learnt from this many steps at least; a longer step than MAX_STEP periods is a pause.
MIN_STEPS = 30
MAX_STEP = 20
# Stamps that stray further from the grid, in periods, say nothing about places on it.
MAX_STRAY = 0.2
# A film's rate on a camera's grid, a coarse clock, or a camera that halves its rate in the dark leave places
# empty too, but by a rule: steps are spread evenly, repeat after a few, or change once in a while.
LONGEST_RULE = 12
RULE_SHARE = 0.97


@dataclass(frozen=True, slots=True)
class Loss:
    """Of the last seconds. ``basis``: what it is known by, ``numbers`` or ``stamps``; empty: not known."""

    sent: int = 0
    lost: int = 0
    basis: str = ""

    @property
    def percent(self) -> float:
        """``nan`` where it is not known."""
        return 100 * self.lost / self.sent if self.basis and self.sent else float("nan")


class ImageLoss:
    """Fed with every message, and looked at several times a second. Used by the executor thread only."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._arrivals: deque[tuple[float, int]] = deque()  # when, and how many numbers were left out before
        self._steps: deque[tuple[float, int]] = deque()  # when, and ns since the stamp before
        self._stamp_ns = 0
        self._last_s: float | None = None
        self._is_numbered = False
        self._is_anonymous = False
        self._period_ns = 0.0

    def note(self, stamp_ns: int, info: Mapping[str, Any], now_s: float) -> None:
        """An image has come. ``stamp_ns`` as the camera sent it, ``info`` is rclpy's ``MessageInfo``."""
        self._begin_anew_after_a_standstill(now_s)
        self._arrivals.append((now_s, self._left_out(info)))
        step_ns = stamp_ns - self._stamp_ns
        if self._stamp_ns and step_ns > 0:
            self._steps.append((now_s, step_ns))
        self._stamp_ns = stamp_ns

    def look(self, now_s: float, publishers: int) -> Loss:
        """The loss up to now, of the images of ``publishers`` publishers."""
        self._begin_anew_after_a_standstill(now_s)
        for samples in (self._arrivals, self._steps):
            while samples and samples[0][0] < now_s - WINDOW_S:
                samples.popleft()
        if not self._is_numbered:
            return self._by_stamps() if publishers == 1 else Loss()
        if self._is_anonymous and publishers != 1:
            return Loss()  # whose number is it?
        lost = max(0, sum(left_out for _, left_out in self._arrivals))
        return Loss(len(self._arrivals) + lost, lost, "numbers")

    def _begin_anew_after_a_standstill(self, now_s: float) -> None:
        if self._last_s is not None and now_s - self._last_s > STANDSTILL_S:
            self._numbers.clear()
            self._stamp_ns = 0
        self._last_s = now_s

    def _left_out(self, info: Mapping[str, Any]) -> int:
        number, gid = info.get("publication_sequence_number"), info.get("publisher_gid")
        self._is_numbered = number is not None
        self._is_anonymous = gid is None
        if number is None:
            return 0
        publisher = bytes(gid["data"]) if gid else b""
        if len(self._numbers) >= MAX_PUBLISHERS and publisher not in self._numbers:
            self._numbers.clear()  # cameras that were restarted over and over
        last = self._numbers.setdefault(publisher, number)
        if 0 < last - number <= LATE_BY_AT_MOST:
            return -1  # overtaken by a later one, and counted as left out before that
        self._numbers[publisher] = number
        return max(0, number - last - 1)

    def _by_stamps(self) -> Loss:
        steps = np.array([step_ns for _, step_ns in self._steps], np.float64)
        if steps.size < MIN_STEPS:
            return Loss()
        # The period of this window, or where no two images in a row got through, one that was seen before.
        for period_ns in (_shortest_common(steps), self._period_ns):
            places = _places(steps, period_ns)
            if places is None:
                continue
            self._period_ns = period_ns
            lost = 0 if _follow_a_rule(places) else int((places - 1).sum())
            return Loss(places.size + lost, lost, "stamps")
        return Loss()


def _shortest_common(steps: NDArray[np.float64]) -> float:
    """The steps from one image to the next one sent, where a tenth of all steps are."""
    base = np.quantile(steps, 0.1, method="lower")
    return float(np.median(steps[np.abs(steps / base - 1) < 0.25]))


def _places(steps: NDArray[np.float64], period_ns: float) -> NDArray[np.float64] | None:
    """Each step in periods, pauses left out; None where the stamps are on no such grid."""
    if not period_ns:
        return None
    ratio = steps / period_ns
    ratio = ratio[ratio < MAX_STEP + 0.5]
    places = np.rint(ratio)
    if ratio.size < MIN_STEPS or np.quantile(np.abs(ratio - places), 0.9) > MAX_STRAY:
        return None
    return places[places >= 1]


def _follow_a_rule(places: NDArray[np.float64]) -> bool:
    """Are the steps spread as evenly as can be, or does nearly each one equal the one a few before it?"""
    if np.ptp(np.cumsum(places - places.mean())) <= 1.0 + 1e-6:
        return True
    return any(
        np.mean(places[distance:] == places[:-distance]) >= RULE_SHARE
        for distance in range(1, min(LONGEST_RULE, places.size // 3) + 1)
    )
