# SPDX-License-Identifier: Apache-2.0
"""rosbag2's own compression: of whole storage files (``.db3.zstd``) or of each message, always zstd."""

from __future__ import annotations

import shutil
from pathlib import Path

import zstandard

MAGIC = b"\x28\xb5\x2f\xfd"
_MOST_MESSAGE_BYTES = 2**30


def unpack_message(data: bytes) -> bytes:
    """``data`` as it was before the recorder compressed it; unchanged where it was not.

    No serialised message begins like a zstd frame: its first byte is 0. Raises ``ValueError``.
    """
    if data[:4] != MAGIC:
        return data
    try:
        size = zstandard.frame_content_size(data)  # -1 where the frame does not tell
        if size > _MOST_MESSAGE_BYTES:
            raise ValueError(f"message must have at most {_MOST_MESSAGE_BYTES} bytes, got {size}")
        return zstandard.ZstdDecompressor().decompress(
            data, max_output_size=_MOST_MESSAGE_BYTES if size < 0 else 0
        )
    except zstandard.ZstdError as error:
        raise ValueError(f"message cannot be decompressed: {error}") from None


def unpack_file(path: Path, folder: Path) -> Path:
    """The storage file in ``path``, written to ``folder``; as far as ``path`` is whole."""
    unpacked = folder / path.stem
    with path.open("rb") as packed, unpacked.open("wb") as file:
        reader = zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True)
        try:
            shutil.copyfileobj(reader, file, 1 << 20)
        except zstandard.ZstdError as error:
            if not file.tell():
                raise ValueError(f"cannot be decompressed: {error}") from None
    return unpacked
