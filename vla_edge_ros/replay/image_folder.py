# SPDX-License-Identifier: Apache-2.0
"""A folder of images as a clip: natural order (``2.png`` before ``10.png``), a fixed frame rate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from PIL import Image

from vla_edge_ros.compressed_image import STILL_FORMATS, decode_picture
from vla_edge_ros.errors import ImageError, SourceError
from vla_edge_ros.replay.base import SourceFrame, WarnOnce
from vla_edge_ros.replay.natural_order import have_decimals, natural_key
from vla_edge_ros.types import NS_PER_S

_MOTION_JPEG = (".mjpeg", ".mjpg")  # JPEGs one after the other, of which Pillow sees the first
_SAME_MOMENT = ("MPO", "TIFF")  # formats of several pages, which are no frames of a film


def image_files(folder: Path) -> list[Path]:
    """The files directly in ``folder`` whose suffix Pillow reads, hidden ones aside, in natural order."""
    Image.init()
    readable = {suffix for suffix, kind in Image.registered_extensions().items() if kind in Image.OPEN}
    seen = [path for path in folder.iterdir() if not path.name.startswith(".")]
    files = [path for path in seen if path.suffix.lower() in readable and path.is_file()]
    decimals = have_decimals(path.stem for path in files)
    return sorted(files, key=lambda path: natural_key(path.name, decimals))


def is_one_picture(path: Path) -> bool:
    """Whether ``path`` is a single still, which is decoded as those of a folder are, and not as video."""
    if path.suffix.lower() in _MOTION_JPEG:
        return False
    try:
        with Image.open(path, formats=STILL_FORMATS) as image:
            return image.format in _SAME_MOMENT or not getattr(image, "is_animated", False)
    except Image.DecompressionBombError:
        return True
    except Exception:  # Pillow's decoders raise whatever foreign bytes lead them to
        return False


class ImageFolderSource:
    """The images in a folder, or one image file.

    Images carry no time, so frame ``i`` is at ``i / rate_hz`` seconds of media time.
    """

    def __init__(self, path: Path, rate_hz: float):
        self.name = str(path)
        self._files = image_files(path) if path.is_dir() else [path]
        self._rate_hz = rate_hz
        self._warn = WarnOnce(self.name)
        if not self._files:
            raise SourceError(f"source {self.name} is a folder without images (and without a rosbag2)")

    def __iter__(self) -> Iterator[SourceFrame]:
        decoded = 0
        refused = ""
        for path in self._files:
            try:
                pixels = decode_picture(path.read_bytes())
            except (ImageError, OSError) as error:
                refused = refused or str(error)
                self._warn(f"{path.name} is left out: {error}")
                continue
            yield SourceFrame(pixels, round(decoded * NS_PER_S / self._rate_hz))
            decoded += 1
        if not decoded:
            raise SourceError(
                f"source {self.name}: none of its {len(self._files)} image files can be decoded: {refused}"
            )

    def close(self) -> None:
        pass
