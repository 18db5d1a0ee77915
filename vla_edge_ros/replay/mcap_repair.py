# SPDX-License-Identifier: Apache-2.0
"""An MCAP file that was cut short (a killed recorder, a broken copy) as one that readers accept.

MCAP is a row of records, each an opcode and a length (https://mcap.dev/spec); the index that readers start
from comes last. Everything up to the last whole record is served, and an empty footer after it, which makes
a reader scan instead of using the index. Nothing is copied or written.
"""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any, cast

MAGIC = b"\x89MCAP0\r\n"
_FOOTER = struct.pack("<BQQQI", 0x02, 20, 0, 0, 0) + MAGIC
_DATA_END, _FOOTER_OP = 0x0F, 0x02


def whole_bytes(path: Path) -> int:
    """How many bytes of ``path`` are magic and whole data records."""
    size = path.stat().st_size
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            return 0
        end = len(MAGIC)
        while True:
            head = file.read(9)
            if len(head) < 9 or head[0] in (_DATA_END, _FOOTER_OP):
                return end
            (length,) = struct.unpack("<Q", head[1:])
            if end + 9 + length > size:
                return end
            end += 9 + length
            file.seek(end)


class _WithFooter(io.RawIOBase):
    """The first ``kept`` bytes of ``path``, then an empty footer."""

    def __init__(self, path: Path, kept: int):
        self._file = path.open("rb")
        self._kept, self._at = kept, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        size = self._kept + len(_FOOTER)
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        if self._at < self._kept:
            self._file.seek(self._at)
            piece = self._file.read(min(len(buffer), self._kept - self._at))
        else:
            start = self._at - self._kept
            piece = _FOOTER[start : start + len(buffer)]
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def close(self) -> None:
        self._file.close()
        super().close()


class RepairedMcap:
    """Stands in for the ``Path`` that a reader opens."""

    def __init__(self, path: Path):
        self._path = path
        self._kept = whole_bytes(path)

    def open(self, _mode: str = "rb") -> io.BufferedReader:
        return io.BufferedReader(cast(Any, _WithFooter(self._path, self._kept)))

    def __str__(self) -> str:
        return str(self._path)
