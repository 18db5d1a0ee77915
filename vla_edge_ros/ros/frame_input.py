# SPDX-License-Identifier: Apache-2.0
"""The body of the image callbacks: convert, resize, judge the stamp, write to the slot. Nothing else."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sensor_msgs.msg import CompressedImage, Image

from vla_edge_ros.compressed_image import compressed_to_rgb
from vla_edge_ros.config import FrameConfig
from vla_edge_ros.errors import ImageError
from vla_edge_ros.imaging import message_to_rgb, resize_rgb
from vla_edge_ros.ros.image_loss import ImageLoss
from vla_edge_ros.ros.stamps import StampRules
from vla_edge_ros.types import NS_PER_MS, NS_PER_S

WARN_EVERY_S = 5.0
# Enough of the last frames to tell an age that is always the same from one that varies.
KEPT_AGES = 30
NO_INFO: Mapping[str, Any] = {}  # where the middleware's binding tells nothing beside the message


class SlotWriter(Protocol):
    """The writer's side of the frame slot."""

    def write(self, pixels: NDArray[np.uint8], stamp_ns: int) -> bool: ...


class FrameInput:
    """Writes what the camera sends, and counts what it does. Used by the executor thread only.

    ``refused`` counts messages that were not written, by reason: those of ``to_rgb`` and
    ``compressed_to_rgb``, and ``order``. ``encoding`` is what the last message says of itself, refused or
    not.
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
        self.ages_ms: deque[float] = deque(maxlen=KEPT_AGES)  # of the last frames at their receipt
        self.size = (0, 0)  # width, height as the camera sends it
        self.encoding = ""
        self.refusal = ""  # the last one
        self.loss = ImageLoss()
        self.busy_s = 0.0  # spent here so far

    @property
    def replaced_stamps(self) -> Counter[str]:
        return self._stamps.replaced

    @property
    def age_ms(self) -> float:
        """Of the last frame at its receipt; 0 before the first one."""
        return self.ages_ms[-1] if self.ages_ms else 0.0

    def receive(self, message: Image, info: Mapping[str, Any]) -> None:
        """Take one image message; a refusal is counted and warned about once in a while.

        ``info`` is rclpy's ``MessageInfo``, as far as there is one.
        """
        self._take(message, info, message.encoding, lambda: message_to_rgb(message))

    def receive_compressed(self, message: CompressedImage, info: Mapping[str, Any]) -> None:
        """``receive`` of a compressed one."""
        self._take(message, info, message.format, lambda: compressed_to_rgb(message.format, message.data))

    def _take(
        self,
        message: Image | CompressedImage,
        info: Mapping[str, Any],
        encoding: str,
        convert: Callable[[], NDArray[np.uint8]],
    ) -> None:
        now_ns, begun_s, stamp = self._now_ns(), self._steady_s(), message.header.stamp
        self.loss.note(stamp.sec * NS_PER_S + stamp.nanosec, info, begun_s)
        self.encoding = encoding
        try:
            pixels = convert()
            stamp_ns = self._stamps.apply(stamp.sec, stamp.nanosec, now_ns)
        except ImageError as refusal:
            self.refused[refusal.reason] += 1
            self.refusal = str(refusal)
            self._warn_once_in_a_while(refusal)
        else:
            self.size = (pixels.shape[1], pixels.shape[0])
            small = resize_rgb(pixels, self._frame.width, self._frame.height)
            self.overwritten += self._slot.write(small, stamp_ns)
            self.written += 1
            self.last_written_s = self._steady_s()
            self.ages_ms.append((now_ns - stamp_ns) / NS_PER_MS)
        self.busy_s += self._steady_s() - begun_s

    def seconds_without_a_frame(self) -> float:
        """Since the last frame that was written, or since the input exists."""
        return self._steady_s() - (self.started_s if self.last_written_s is None else self.last_written_s)

    def _warn_once_in_a_while(self, refusal: ImageError) -> None:
        now_s = self._steady_s()
        if now_s - self._warned_s.get(refusal.reason, -WARN_EVERY_S) < WARN_EVERY_S:
            return
        self._warned_s[refusal.reason] = now_s
        self._warn(f"image refused ({self.refused[refusal.reason]} for this reason so far): {refusal}")
