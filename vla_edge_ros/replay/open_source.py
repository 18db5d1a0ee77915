# SPDX-License-Identifier: Apache-2.0
"""From what the user typed to a source that is known to play."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from vla_edge_ros.errors import SourceError
from vla_edge_ros.replay.base import FrameSource
from vla_edge_ros.replay.synthetic import SyntheticScene

STORAGE_SUFFIXES = (".mcap", ".db3", ".mcap.zstd", ".db3.zstd")

_BAG_MAGIC = (b"\x89MCAP0\r\n", b"SQLite format 3\0", b"\x28\xb5\x2f\xfd")  # the last is a zstd frame's
_ROS1_MAGIC = b"#ROSBAG"


def open_source(uri: str, *, rate_hz: float = 60.0, bag_topic: str = "") -> FrameSource:
    """The source that ``uri`` names: ``synthetic``, a video, an image, a folder of images, a bag.

    ``rate_hz``: frame rate of what carries no time of its own. One frame is decoded before it returns, so
    what cannot play raises ``SourceError`` here, naming ``uri``; later damage is a warning.
    """
    source = _choose(uri, rate_hz, bag_topic)
    frames = iter(source)
    try:
        next(frames)
    except BaseException:
        source.close()
        raise
    del frames  # ends the pass
    return source


def _choose(uri: str, rate_hz: float, bag_topic: str) -> FrameSource:
    if uri == "synthetic":
        return SyntheticScene(rate_hz=rate_hz)
    if not uri:
        raise SourceError("source must be 'synthetic' or the path of a video, image folder or bag, got ''")
    path = Path(os.path.expanduser(uri))  # leaves a user who is unknown as it is, where Path would raise
    try:
        if not path.exists():
            raise SourceError(f"source {uri} does not exist (looked for {path.absolute()})")
        if path.is_dir():
            if _is_bag_folder(path):
                return _source("bag", "BagSource", path, bag_topic)
            return _source("image_folder", "ImageFolderSource", path, rate_hz)
        return _choose_file(path, rate_hz, bag_topic)
    except OSError as error:
        raise SourceError(f"source {uri} cannot be read: {error.strerror or error}") from None


def _choose_file(path: Path, rate_hz: float, bag_topic: str) -> FrameSource:
    if not path.is_file():
        raise SourceError(f"source {path} is neither a file nor a folder")
    with path.open("rb") as file:
        head = file.read(16)
    if not head:
        raise SourceError(f"source {path} is empty (0 bytes)")
    if head.startswith(_ROS1_MAGIC):
        raise SourceError(f"source {path} is a ROS 1 bag; rosbags-convert makes a rosbag2 of it")
    if head.startswith(_BAG_MAGIC) or path.name.endswith(STORAGE_SUFFIXES):
        return _source("bag", "BagSource", path, bag_topic)
    if _is_one_picture(path):
        return _source("image_folder", "ImageFolderSource", path, rate_hz)
    return _source("video", "VideoSource", path)


def _is_one_picture(path: Path) -> bool:
    try:
        from vla_edge_ros.replay.image_folder import is_one_picture
    except ImportError:  # without Pillow FFmpeg may still play it
        return False
    return is_one_picture(path)


def _is_bag_folder(path: Path) -> bool:
    return (path / "metadata.yaml").exists() or any(
        child.name.endswith(STORAGE_SUFFIXES) for child in path.iterdir()
    )


def _source(module: str, name: str, path: Path, *arguments: Any) -> FrameSource:
    """Make a source whose library is imported only now: a robot with a camera needs none of them."""
    try:
        made = getattr(import_module(f"vla_edge_ros.replay.{module}"), name)
    except ImportError as error:
        raise SourceError(f"source {path} needs the Python package {error.name}, which is missing") from None
    return made(path, *arguments)
