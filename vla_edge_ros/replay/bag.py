# SPDX-License-Identifier: Apache-2.0
"""The images of one topic of a rosbag2: ``sensor_msgs/msg/Image`` or ``CompressedImage``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rosbags.typesys import Stores, get_typestore

from vla_edge_ros.compressed_image import compressed_to_rgb
from vla_edge_ros.errors import ImageError, SourceError
from vla_edge_ros.imaging import message_to_rgb
from vla_edge_ros.replay.bag_files import Storage, Topic, open_storages
from vla_edge_ros.replay.base import LOGGER, SourceFrame, WarnOnce

RAW = "sensor_msgs/msg/Image"
COMPRESSED = "sensor_msgs/msg/CompressedImage"


class BagSource:
    """Media time is the time at which the recorder received a message, as in ``ros2 bag play``.

    ``topic``: which image topic; empty takes the first that has messages, and says so where there are more.
    """

    def __init__(self, path: Path, topic: str = ""):
        self.name = str(path)
        self._path = path
        self._warn = WarnOnce(self.name)
        self._storages: list[Storage] = []
        self._passes = 0
        # These two types are the same in every ROS 2 release, so the bag's own definitions are not needed.
        self._types = get_typestore(Stores.LATEST)
        self._open()
        try:
            self.topic, self._kind = self._choose(topic)
        except SourceError:
            self.close()
            raise

    def __iter__(self) -> Iterator[SourceFrame]:
        self._open()
        self._passes += 1
        this_pass = self._passes
        first_ns, media_ns, frames, refused = None, 0, 0, ""
        for log_ns, data in self._messages():
            assert this_pass == self._passes, "passes share the bag's readers: one at a time"
            try:
                pixels = self._pixels(data)
            except ImageError as error:
                refused = refused or str(error)
                self._warn(f"a message of {self.topic} is left out: {error}")
                continue
            first_ns = log_ns if first_ns is None else first_ns
            media_ns = max(media_ns, log_ns - first_ns)
            frames += 1
            yield SourceFrame(pixels, media_ns)
        if not frames:
            reason = refused or "it has no messages"
            raise SourceError(
                f"source {self.name} has no image on {self.topic} that can be decoded: {reason}"
            )

    def close(self) -> None:
        for storage in self._storages:
            storage.close()
        self._storages = []

    def _open(self) -> None:
        if not self._storages:
            self._storages = open_storages(self._path, self._warn)

    def _choose(self, wanted: str) -> tuple[str, str]:
        topics: dict[str, Topic] = {}
        for topic in (topic for storage in self._storages for topic in storage.topics):
            if topic.type in (RAW, COMPRESSED) and (topic.messages or topic.name not in topics):
                topics.setdefault(topic.name, topic)
        names = [topic.name for topic in topics.values() if topic.messages] or list(topics)
        if not names:
            raise SourceError(f"source {self.name} is a bag without an image topic ({RAW} or {COMPRESSED})")
        if not wanted:
            if len(names) > 1:
                choice = ", ".join(names)
                LOGGER.info("%s: playing %s; bag_topic chooses among %s", self.name, names[0], choice)
            return names[0], topics[names[0]].type
        for name in topics:
            if name.lstrip("/") == wanted.lstrip("/"):
                return name, topics[name].type
        raise SourceError(f"source {self.name} has no image topic {wanted!r}, only {', '.join(topics)}")

    def _messages(self) -> Iterator[tuple[int, bytes]]:
        for storage in self._storages:
            try:
                yield from storage.messages(self.topic)
            except Exception as error:  # parsers raise whatever broken bytes lead them to
                self._warn(f"is damaged or cut short ({error}); playing what comes before that")

    def _pixels(self, data: bytes) -> NDArray[np.uint8]:
        try:
            message: Any = self._types.deserialize_cdr(data, self._kind)
        except Exception as error:  # as above
            raise ImageError("data", f"message cannot be deserialised: {error}") from None
        if self._kind == COMPRESSED:
            return compressed_to_rgb(message.format, message.data)
        return message_to_rgb(message)
