# SPDX-License-Identifier: Apache-2.0
"""The body of the image callback: convert, resize, judge the stamp, write to the slot. Nothing else."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sensor_msgs.msg import Image

from vla_edge_ros.config import FrameConfig
from vla_edge_ros.errors import ImageError
from vla_edge_ros.imaging import message_to_rgb, resize_rgb
from vla_edge_ros.ros.stamps import StampRules
from vla_edge_ros.types import NS_PER_MS

WARN_EVERY_S = 5.0


class SlotWriter(Protocol):
    """The writer's side of the frame slot."""

    def write(self, pixels: NDArray[np.uint8], stamp_ns: int) -> bool: ...


class FrameInput:
    """Writes what the camera sends, and counts what it does. Used by the executor thread only.

    ``refused`` counts messages that were not written, by reason: those of ``to_rgb``, and ``order``.
    """

    def __init__(
        self,
        slot: SlotWriter,
        frame: FrameConfig,
        stamps: StampRules,
        now_ns: Callable[[], int],
        warn: Callable[[str], object],
        steady_s: Callable[[], float] = time.monotonic,
    ):
        self._slot = slot
        self._frame = frame
        self._stamps = stamps
        self._now_ns = now_ns
        self._warn = warn
        self._steady_s = steady_s
        self._warned_s: dict[str, float] = {}
        self.refused: Counter[str] = Counter()
        self.written = 0
        self.overwritten = 0
        self.started_s = steady_s()
        self.last_written_s: float | None = None
        self.age_ms = 0.0  # of the last frame at its receipt
        self.size = (0, 0)  # width, height as the camera sends it
        self.encoding = ""

    @property
    def replaced_stamps(self) -> Counter[str]:
        return self._stamps.replaced

    def receive(self, message: Image) -> None:
        """Take one image message; a refusal is counted and warned about once in a while."""
        now_ns = self._now_ns()
        try:
            pixels = message_to_rgb(message)
            stamp = message.header.stamp
            stamp_ns = self._stamps.apply(stamp.sec, stamp.nanosec, now_ns)
        except ImageError as refusal:
            self.refused[refusal.reason] += 1
            self._warn_once_in_a_while(refusal)
            return
        self.overwritten += self._slot.write(
            resize_rgb(pixels, self._frame.width, self._frame.height), stamp_ns
        )
        self.written += 1
        self.last_written_s = self._steady_s()
        self.age_ms = (now_ns - stamp_ns) / NS_PER_MS
        self.size, self.encoding = (message.width, message.height), message.encoding

    def seconds_without_a_frame(self) -> float:
        """Since the last frame that was written, or since the input exists."""
        return self._steady_s() - (self.started_s if self.last_written_s is None else self.last_written_s)

    def _warn_once_in_a_while(self, refusal: ImageError) -> None:
        now_s = self._steady_s()
        if now_s - self._warned_s.get(refusal.reason, -WARN_EVERY_S) < WARN_EVERY_S:
            return
        self._warned_s[refusal.reason] = now_s
        self._warn(f"image refused ({self.refused[refusal.reason]} for this reason so far): {refusal}")
