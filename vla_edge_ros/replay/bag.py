# SPDX-License-Identifier: Apache-2.0
"""The images of one topic of a rosbag2: ``sensor_msgs/msg/Image`` or ``CompressedImage``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from vla_edge_ros.errors import ImageError, SourceError
from vla_edge_ros.replay.bag_files import Storage, open_storages
from vla_edge_ros.replay.base import LOGGER, SourceFrame, WarnOnce
from vla_edge_ros.replay.image_message import serialised_to_rgb
from vla_edge_ros.replay.topic import COMPRESSED, RAW, Topic
from vla_edge_ros.replay.zstd import unpack_message

# How well a topic serves as the camera, best first. Depth is sent as 16-bit grey, nearly all of it dark.
_PICTURE, _DEEP_GREY, _NO_PICTURE, _NO_MESSAGES = range(4)
_DEEP_GREY_ENCODINGS = ("16UC1", "mono16")
_MESSAGES_TO_TRY = 5  # the first ones of a recording may be broken
_MOST_NAMED = 20


class BagSource:
    """Media time is the time at which the recorder received a message, as in ``ros2 bag play``.

    ``topic``: which image topic; empty takes the first that carries a picture (not depth, not empty), and
    says so where there are more.
    """

    def __init__(self, path: Path, topic: str = ""):
        self.name = str(path)
        self._path = path
        self._warn = WarnOnce(self.name)
        self._storages: list[Storage] = []
        self._passes = 0
        self._open()
        try:
            self._topic = self._choose(topic)
        except BaseException:
            self.close()
            raise
        self.topic = self._topic.name

    def __iter__(self) -> Iterator[SourceFrame]:
        self._open()
        self._passes += 1
        this_pass = self._passes
        first_ns, media_ns, frames, refused = None, 0, 0, ""
        for log_ns, data in self._messages(self._topic):
            assert this_pass == self._passes, "passes share the bag's readers: one at a time"
            try:
                pixels, encoding = serialised_to_rgb(self._topic.image_type, unpack_message(data))
            except (ImageError, ValueError) as error:
                refused = refused or str(error)
                self._warn(f"a message of {self.topic} is left out: {error}")
                continue
            if encoding in _DEEP_GREY_ENCODINGS:
                self._warn(f"{self.topic} carries {encoding}; as grey whose white is 65535, depth is dark")
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

    def _choose(self, wanted: str) -> Topic:
        seen = list(dict.fromkeys(topic for storage in self._storages for topic in storage.topics))
        images = [topic for topic in seen if topic.image_type]
        if not images:
            others = ", ".join(str(topic) for topic in seen[:_MOST_NAMED]) or "no topic at all"
            raise SourceError(
                f"source {self.name} is a bag without an image topic ({RAW} or {COMPRESSED} in cdr); "
                f"it has {others}"
            )
        if wanted:
            images = [topic for topic in images if topic.name.lstrip("/") == wanted.lstrip("/")] or images
            if images[0].name.lstrip("/") != wanted.lstrip("/"):
                names = ", ".join(topic.name for topic in images)
                raise SourceError(f"source {self.name} has no image topic {wanted!r}, only {names}")
        if len(images) == 1:
            return images[0]
        found = {topic: self._try(topic) for topic in images}
        chosen = min(images, key=lambda topic: found[topic][0])  # the first of the best
        others = ", ".join(f"{topic.name} ({found[topic][1]})" for topic in images if topic != chosen)
        LOGGER.info(
            "%s: playing %s (%s); bag_topic chooses among the others: %s",
            self.name, chosen.name, found[chosen][1], others,
        )  # fmt: skip
        return chosen

    def _try(self, topic: Topic) -> tuple[int, str]:
        """How well ``topic`` serves, and what it carries in a word."""
        if not any(storage.has_messages(topic) for storage in self._storages):
            return _NO_MESSAGES, "no messages"
        refused = "no messages"
        for _, data in islice(self._messages(topic), _MESSAGES_TO_TRY):
            try:
                _, encoding = serialised_to_rgb(topic.image_type, unpack_message(data))
            except (ImageError, ValueError) as error:
                refused = str(error)
                continue
            source = encoding.partition(";")[0].strip()
            return (_DEEP_GREY if source in _DEEP_GREY_ENCODINGS else _PICTURE), encoding
        return _NO_PICTURE, refused

    def _messages(self, topic: Topic) -> Iterator[tuple[int, bytes]]:
        for storage in self._storages:
            try:
                yield from storage.messages(topic)
            except Exception as error:  # parsers raise whatever broken bytes lead them to
                self._warn(f"is damaged or cut short ({error}); playing what comes before that")
