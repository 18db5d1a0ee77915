# SPDX-License-Identifier: Apache-2.0
"""Folders of pictures made on the spot."""

from __future__ import annotations

from pathlib import Path


def write_pictures(folder: Path, count: int, height: int = 4, width: int = 6) -> Path:
    from PIL import Image

    folder.mkdir()
    for i in range(count):
        Image.new("RGB", (width, height), (i, 2 * i, 255 - i)).save(folder / f"{i}.png")
    return folder
