# SPDX-License-Identifier: Apache-2.0
"""Whether a GIF file is whole: its blocks are walked to the trailer, by the lengths that they declare.

FFmpeg flags no packet of this format as cut, and a last byte that looks like the trailer may be a picture's.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

HEADER_BYTES = 13  # signature, version and logical screen descriptor
IMAGE_DESCRIPTOR_BYTES = 9
TRAILER, IMAGE, EXTENSION = b"\x3b", b"\x2c", b"\x21"


def is_whole(path: Path) -> bool:
    """Does a trailer stand where a block would begin? What follows it does not matter."""
    size = path.stat().st_size
    with path.open("rb") as file:
        header = file.read(HEADER_BYTES)
        if len(header) < HEADER_BYTES:
            return False
        _skip(file, _color_table_bytes(header[10]))
        while file.tell() < size:
            kind = file.read(1)
            if kind == TRAILER:
                return True
            if kind == IMAGE:
                descriptor = file.read(IMAGE_DESCRIPTOR_BYTES)
                if len(descriptor) < IMAGE_DESCRIPTOR_BYTES:
                    return False
                _skip(file, _color_table_bytes(descriptor[8]) + 1)  # and the code size of its data
            elif kind == EXTENSION:
                _skip(file, 1)  # its label
            else:
                return False  # no block begins so: the file is damaged before its end
            _skip_data(file)
    return False


def _color_table_bytes(flags: int) -> int:
    """Of the table that ``flags`` declare to follow; 0 without one."""
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _skip_data(file: BinaryIO) -> None:
    """Data comes in pieces with their length in front; a length of 0, or the file's end, ends them."""
    while length := file.read(1):
        if length == b"\0":
            return
        _skip(file, length[0])


def _skip(file: BinaryIO, count: int) -> None:
    file.seek(count, os.SEEK_CUR)
