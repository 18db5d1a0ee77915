# SPDX-License-Identifier: Apache-2.0
"""Bags made on the spot of pictures of one level, by ``rosbags``, which shares no code with the reader."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

TYPES = get_typestore(Stores.LATEST)
HEADER = TYPES.types["std_msgs/msg/Header"](TYPES.types["builtin_interfaces/msg/Time"](0, 0), "")
STORAGES = {"mcap": StoragePlugin.MCAP, "db3": StoragePlugin.SQLITE3}


def raw(level: int, encoding: str = "rgb8", height: int = 4, width: int = 6, step: int = 0):
    channels = {"rgb8": 3, "bgr8": 3, "mono8": 1, "mono16": 2, "16UC1": 2, "32FC1": 4}[encoding]
    step = step or width * channels
    data = np.full(height * step, level, np.uint8)
    return TYPES.types["sensor_msgs/msg/Image"](HEADER, height, width, encoding, 0, step, data)


def jpeg(level: int, format: str = "jpeg"):
    file = io.BytesIO()
    Image.new("RGB", (16, 8), (level, level, level)).save(file, "JPEG", quality=95)
    data = np.frombuffer(file.getvalue(), np.uint8)
    return TYPES.types["sensor_msgs/msg/CompressedImage"](HEADER, format, data)


def text(value: int):
    return TYPES.types["std_msgs/msg/String"](str(value))


def write_bag(
    path: Path,
    messages,
    storage: str = "mcap",
    compression: CompressionMode | None = None,
    little_endian: bool = True,
    behind: bytes = b"",
) -> Path:
    """``messages``: ``(topic, time in ms, message)``; ``behind``: bytes behind each of them."""
    writer = Writer(path, version=9, storage_plugin=STORAGES[storage])
    if compression:
        writer.set_compression(compression, CompressionFormat.ZSTD)
    with writer:
        connections = {}
        for topic, time_ms, message in messages:
            kind = message.__msgtype__
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, kind, typestore=TYPES)
            data = bytes(TYPES.serialize_cdr(message, kind, little_endian=little_endian)) + behind
            writer.write(connections[topic], time_ms * 1_000_000, data)
    return path


def levels(source) -> list[int]:
    return [int(frame.pixels[0, 0, 0]) for frame in source]


def noisy(count: int):
    """Messages that do not compress, so that a cut in the middle of the file is one in the middle of them."""
    rng = np.random.default_rng(1)
    for i in range(count):
        message = raw(0, height=64, width=64)
        message.data[:] = rng.integers(0, 255, message.data.size, np.uint8)
        message.data[0] = i % 256
        yield ("/cam", i * 100, message)
