# SPDX-License-Identifier: Apache-2.0
"""Every parameter of the replay node, in the form of ``vla_edge_ros.config``."""

from __future__ import annotations

from dataclasses import dataclass

from vla_edge_ros.config import check_fields, param
from vla_edge_ros.errors import ConfigError
from vla_edge_ros.replay.pacing import TIMINGS


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
    width: int = param(128, "published width in pixels; both 0: the source's size", low=0, high=16384)
    height: int = param(64, "published height in pixels; both 0: the source's size", low=0, high=16384)
    frame_id: str = param("camera", "frame_id of the images")

    def __post_init__(self) -> None:
        check_fields("replay", self)
        if bool(self.width) != bool(self.height):
            raise ConfigError(
                f"replay.width and height must both be 0 (the source's size) or both be set, "
                f"got {self.width}x{self.height}"
            )

    @property
    def period_ns(self) -> int:
        return round(1e9 / self.rate_hz)
