# SPDX-License-Identifier: Apache-2.0
"""A source at its publish size, pass after pass, in the form that is cheap to publish."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass

from vla_edge_ros.imaging import resize_rgb
from vla_edge_ros.replay.base import FrameSource, SourceFrame

CACHE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ClipFrame:
    """``data``: RGB bytes, row after row without padding, in the one type that ``sensor_msgs/Image`` takes
    without copying or checking each element."""

    data: array[int]
    height: int
    width: int
    media_ns: int


class Clip:
    """``width`` and ``height`` 0 keep each frame's own size; a single 0 follows from the other and its shape.

    A looping clip that fits into ``cache_bytes`` is decoded and resized once; a longer one, each pass.
    """

    def __init__(
        self, source: FrameSource, width: int, height: int, loop: bool, cache_bytes: int = CACHE_BYTES
    ):
        self._source = source
        self._width, self._height = width, height
        self._loop = loop
        self._cache_bytes = cache_bytes
        self._cache: list[ClipFrame] | None = None

    @property
    def is_cached(self) -> bool:
        return self._cache is not None

    def passes(self) -> Iterator[Iterator[ClipFrame]]:
        """One pass, or passes without end; each is to be read to its end before the next."""
        yield self._decode()
        while self._loop:
            yield self._decode() if self._cache is None else iter(self._cache)

    def close(self) -> None:
        self._source.close()

    def _decode(self) -> Iterator[ClipFrame]:
        kept: list[ClipFrame] | None = [] if self._loop else None
        kept_bytes = 0
        for frame in self._source:
            clip_frame = self._prepare(frame)
            if kept is not None:
                kept_bytes += len(clip_frame.data)
                kept.append(clip_frame)
                if kept_bytes > self._cache_bytes:
                    kept = None
            yield clip_frame
        if kept is not None:
            self._cache = kept
            self._source.close()

    def _prepare(self, frame: SourceFrame) -> ClipFrame:
        pixels = frame.pixels
        if self._width or self._height:
            height, width = pixels.shape[:2]
            pixels = resize_rgb(
                pixels,
                self._width or max(1, round(self._height * width / height)),
                self._height or max(1, round(self._width * height / width)),
            )
        data = array("B")
        data.frombytes(pixels.data.cast("B"))
        return ClipFrame(data, pixels.shape[0], pixels.shape[1], frame.media_ns)
