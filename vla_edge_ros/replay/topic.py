# SPDX-License-Identifier: Apache-2.0
"""A topic of a recording, and whether its messages are images."""

from __future__ import annotations

from dataclasses import dataclass

RAW = "sensor_msgs/msg/Image"
COMPRESSED = "sensor_msgs/msg/CompressedImage"


@dataclass(frozen=True, slots=True)
class Topic:
    """``encoding``: how messages are serialised; ROS 2 writes ``cdr``."""

    name: str
    type: str
    encoding: str

    @property
    def image_type(self) -> str:
        """``RAW``, ``COMPRESSED``, or empty for everything else. Converters write ``sensor_msgs/Image``."""
        if self.encoding != "cdr":
            return ""
        return next((kind for kind in (RAW, COMPRESSED) if self.type in (kind, kind.replace("/msg", ""))), "")

    def __str__(self) -> str:
        kind = self.type or "no type"
        return f"{self.name} ({kind})" if self.encoding == "cdr" else f"{self.name} ({kind}, {self.encoding})"
