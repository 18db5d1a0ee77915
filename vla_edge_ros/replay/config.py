# SPDX-License-Identifier: Apache-2.0
"""Every parameter of the replay node, in the form of ``vla_edge_ros.config``."""

from __future__ import annotations

from dataclasses import dataclass

from vla_edge_ros.config import check_fields, param
from vla_edge_ros.replay.pacing import TIMINGS
from vla_edge_ros.units import NS_PER_S

MODEL_SIZE = (128, 64)  # width and height in pixels of the model's frame by default
UNSET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayConfig:
    """What to play, how fast, and how large."""

    source: str = param("synthetic", "'synthetic', or the path of a video, image folder or rosbag2")
    bag_topic: str = param("", "image topic of a bag; empty: its first that carries a picture, not depth")
    rate_hz: float = param(60.0, "images published a second", low=0.1, high=1000.0)
    loop: bool = param(True, "begin again at the end; false: say so and stop")
    timing: str = param(
        "each_frame", "one source frame a tick, or the frame that is current in the media", choices=TIMINGS
    )
    width: int = param(
        UNSET,
        "published width in pixels; 0: by the height and the source's shape; both -1: 128x64",
        low=UNSET,
        high=16384,
    )
    height: int = param(
        UNSET,
        "published height in pixels; 0: by the width and the source's shape; both 0: the source's size",
        low=UNSET,
        high=16384,
    )
    frame_id: str = param("camera", "frame_id of the images")
    wait_for_subscriber: str = param(
        "auto",
        "begin once somebody listens and each lifecycle node that does is active; auto: where loop is false",
        choices=("auto", "always", "never"),
    )

    def __post_init__(self) -> None:
        check_fields("", self)

    @property
    def period_ns(self) -> int:
        return round(NS_PER_S / self.rate_hz)

    @property
    def size(self) -> tuple[int, int]:
        """Published width and height in pixels; a 0 follows from the other one, two are the source's size."""
        if self.width == self.height == UNSET:
            return MODEL_SIZE
        return max(0, self.width), max(0, self.height)

    @property
    def waits_for_subscriber(self) -> bool:
        """A clip that plays once would be over before its listener is there; a loop comes round again."""
        return not self.loop if self.wait_for_subscriber == "auto" else self.wait_for_subscriber == "always"
