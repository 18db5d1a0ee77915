# SPDX-License-Identifier: Apache-2.0
"""What the diagnostics are made from: plain values, gathered ten times a second."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from vla_edge_ros.ros.image_loss import Loss
from vla_edge_ros.types import MemoryReport


@dataclass(frozen=True, slots=True)
class CameraHealth:
    """Counts are since configuration; ``recent_*``, rates and shares are of the last second or seconds.

    Names are full ones, for sentences. ``strangers``: publishers of another type on the topic.
    ``kept_away``: publishers whose policies do not match, with the policies.
    """

    topic: str = ""
    expected_type: str = ""
    publishers: int = 0
    publisher_names: str = ""
    strangers: str = ""
    kept_away: str = ""
    promised_hz: float = 0.0
    frames: int = 0
    overwritten: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    refusal: str = ""
    replaced_stamps: dict[str, int] = field(default_factory=dict)
    rate_hz: float = 0.0
    recent_refused: float = 0.0
    recent_replaced: float = 0.0
    loss: Loss = Loss()
    transport: str = ""
    busy_share: float = 0.0
    silent_s: float = 0.0
    timeout_s: float = 1.0
    age_ms: float = 0.0
    least_age_ms: float = 0.0
    most_age_ms: float = 0.0
    max_age_ms: float = 100.0
    width: int = 0
    height: int = 0
    encoding: str = ""
    clock_missing: bool = False


@dataclass(frozen=True, slots=True)
class ActionHealth:
    """``fault``: what went wrong lately in the node itself, empty if nothing did.

    ``kept_away``: subscribers whose policies do not match, with topic and policies.
    """

    state: str = "unconfigured"
    is_active: bool = False
    topic: str = ""
    publishers: int = 0
    kept_away: str = ""
    fault: str = ""
    faults: int = 0


@dataclass(frozen=True, slots=True)
class EngineHealth:
    """``memory`` as the engine reported it after the warm-up; ``caveats`` of the model, the gravest first."""

    name: str = "none"
    memory: MemoryReport = field(default_factory=MemoryReport)
    ceiling_mb: int = 0
    slots_in_use: int = 0
    capacity_slots: int = 0
    evictions: int = 0
    eviction: str = ""
    caveats: tuple[str, ...] = ()


class RecentRate:
    """How fast a counter rises, over the last second. A paused or new one is 0, never a division by zero."""

    def __init__(self, window_s: float = 1.0):
        self._window_s = window_s
        self._samples: deque[tuple[float, float]] = deque()

    def update(self, now_s: float, count: float) -> float:
        """Take the counter's value now; return its rise a second."""
        if self._samples and count < self._samples[-1][1]:  # a new run counts from zero
            self._samples.clear()
        self._samples.append((now_s, count))
        while len(self._samples) > 2 and self._samples[1][0] <= now_s - self._window_s:
            self._samples.popleft()
        first_s, first_count = self._samples[0]
        return (count - first_count) / (now_s - first_s) if now_s > first_s else 0.0
