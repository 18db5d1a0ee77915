# SPDX-License-Identifier: Apache-2.0
"""A folder of images as a clip: natural order (``2.png`` before ``10.png``), a fixed frame rate."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

from vla_edge_ros.compressed_image import decode_picture
from vla_edge_ros.errors import ImageError, SourceError
from vla_edge_ros.replay.base import SourceFrame, WarnOnce


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """Sort key that compares runs of digits as numbers."""
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]


def image_files(folder: Path) -> list[Path]:
    """The files directly in ``folder`` whose suffix Pillow reads, hidden ones aside, in natural order."""
    Image.init()
    readable = {suffix for suffix, kind in Image.registered_extensions().items() if kind in Image.OPEN}
    seen = [path for path in folder.iterdir() if not path.name.startswith(".")]
    files = [path for path in seen if path.suffix.lower() in readable and path.is_file()]
    return sorted(files, key=lambda path: natural_key(path.name))


class ImageFolderSource:
    """Images carry no time, so frame ``i`` is at ``i / rate_hz`` seconds of media time."""

    def __init__(self, folder: Path, rate_hz: float):
        self.name = str(folder)
        self._files = image_files(folder)
        self._rate_hz = rate_hz
        self._warn = WarnOnce(self.name)
        if not self._files:
            raise SourceError(f"source {self.name} is a folder without images (and without a rosbag2)")

    def __iter__(self) -> Iterator[SourceFrame]:
        decoded = 0
        for path in self._files:
            try:
                pixels = decode_picture(path.read_bytes())
            except (ImageError, OSError) as error:
                self._warn(f"{path.name} is left out: {error}")
                continue
            yield SourceFrame(pixels, round(decoded * 1e9 / self._rate_hz))
            decoded += 1
        if not decoded:
            raise SourceError(
                f"source {self.name}: none of its {len(self._files)} image files can be decoded"
            )

    def close(self) -> None:
        pass
