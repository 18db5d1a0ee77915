# SPDX-License-Identifier: Apache-2.0
"""Clips and bags made on the spot; every one states what it holds, so tests know the answer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray

Write = Callable[..., Path]


def grey_levels(count: int) -> list[int]:
    """A level a frame, far enough apart to survive any codec."""
    return [30 + 17 * i % 200 for i in range(count)]


@pytest.fixture
def write_video(tmp_path: Path) -> Write:
    def write(
        name: str,
        pictures: Sequence[NDArray[np.uint8]],
        codec: str = "libx264",
        pix_fmt: str = "yuv420p",
        pts_ms: Sequence[int] | None = None,
        options: dict[str, str] | None = None,
        container_options: dict[str, str] | None = None,
        title: str = "",
    ) -> Path:
        """``pictures`` at 25 Hz, or at ``pts_ms``."""
        path = tmp_path / name
        # In a thread of its own: SVT-AV1 gives the one that calls it real-time priority, for good.
        with ThreadPoolExecutor(1) as encoder:
            encoder.submit(
                encode, path, pictures, codec, pix_fmt, pts_ms, options, container_options, title
            ).result()
        return path

    return write


def encode(
    path: Path,
    pictures: Sequence[NDArray[np.uint8]],
    codec: str,
    pix_fmt: str,
    pts_ms: Sequence[int] | None,
    options: dict[str, str] | None,
    container_options: dict[str, str] | None,
    title: str,
) -> None:
    with av.open(str(path), "w", options=container_options or {}) as container:
        if title:
            container.metadata["title"] = title
        stream = container.add_stream(codec, rate=25, options=options or {})
        stream.height, stream.width = pictures[0].shape[:2]
        stream.pix_fmt = pix_fmt
        stream.time_base = stream.codec_context.time_base = Fraction(1, 1000)
        for index, pixels in enumerate(pictures):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24").reformat(format=pix_fmt)
            frame.pts = pts_ms[index] if pts_ms is not None else index * 40
            frame.time_base = Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


@pytest.fixture
def flat_pictures() -> Callable[..., list[NDArray[np.uint8]]]:
    def make(count: int, height: int = 48, width: int = 64) -> list[NDArray[np.uint8]]:
        return [np.full((height, width, 3), level, np.uint8) for level in grey_levels(count)]

    return make


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.INFO, logger="vla_edge_ros.replay")
    return lambda: [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
