# SPDX-License-Identifier: Apache-2.0
"""A video file, decoded by FFmpeg (PyAV) a frame at a time: any codec, pixel format and frame timing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.errors import SourceError
from vla_edge_ros.orientation import UPRIGHT, from_display_matrix, set_upright
from vla_edge_ros.replay.base import SourceFrame, WarnOnce

# FFmpeg takes nearly any file for one of these: text as ANSI art, or a list of other files to open.
_NOT_VIDEO = {"tty", "concat", "hls", "dash", "ffmetadata", "lrc"}
# A file is called cut short when its frames end this much before what its header says.
_MISSING_SECONDS = 0.25
_MOST_UNKNOWN_KINDS = 16


class VideoSource:
    """The first video stream of ``path``; upright as its display matrix says.

    Each pass opens the file for itself and closes it at its end, so none can pull it away under another.
    """

    def __init__(self, path: Path):
        self.name = str(path)
        self._path = path
        self._warn = WarnOnce(self.name)

    def __iter__(self) -> Iterator[SourceFrame]:
        container = self._open()
        try:
            stream = next(iter(container.streams.video), None)
            if stream is None:
                raise SourceError(f"source {self.name} has no video stream ({container.format.long_name})")
            frames, media_ns, first_ns, gap_ns = 0, 0, None, _frame_ns(stream)
            damage: set[str] = set()
            for frame in _decoded(container, stream, damage):
                if frame.pts is None or frame.time_base is None:
                    at_ns = media_ns + gap_ns if frames else 0
                else:
                    stamp_ns = int(frame.pts * frame.time_base * 1_000_000_000)
                    first_ns = stamp_ns if first_ns is None else first_ns
                    at_ns = stamp_ns - first_ns
                media_ns = max(media_ns, at_ns)
                frames += 1
                if _has_no_white(frame.format):
                    raise SourceError(
                        f"source {self.name} must have 8 or 16-bit samples, got {frame.format.name}"
                    )
                yield SourceFrame(_rgb(frame), media_ns)
            if not frames:
                raise SourceError(
                    f"source {self.name} has no frame that can be decoded ({', '.join(damage) or 'empty'})"
                )
            missing = _missing(stream, frames, media_ns + gap_ns)
            if missing or damage:
                reasons = "; ".join(filter(None, [*sorted(damage), missing]))
                self._warn(f"is damaged or cut short ({reasons}); playing the {frames} whole frames")
        finally:
            container.close()

    def close(self) -> None:
        pass

    def _open(self) -> Any:
        try:
            # "file:" keeps FFmpeg from reading a protocol into a name such as "take:1.mp4".
            container = av.open(f"file:{self._path}")
        except (av.FFmpegError, OSError) as error:
            raise SourceError(
                f"source {self.name} is not a video that FFmpeg can read ({error.strerror or error}); "
                "an mp4 that was cut short before its index was written cannot be played"
            ) from None
        if container.format.name in _NOT_VIDEO:
            container.close()
            raise SourceError(f"source {self.name} is not a video ({container.format.long_name})")
        return container


def _decoded(container: Any, stream: Any, damage: set[str]) -> Iterator[Any]:
    """Whole frames only. A damaged packet or frame is left out and noted; reading goes on, as in players."""
    packets = container.demux(stream)
    while True:
        try:
            packet = next(packets, None)
        except av.FFmpegError as error:  # the file itself cannot be read on from here
            damage.add(str(error))
            return
        if packet is None:
            return
        try:
            frames = packet.decode()
        except av.FFmpegError as error:
            damage.add(str(error))
            continue
        for frame in frames:
            if frame.is_corrupt:
                damage.add("a frame is incomplete")
            else:
                yield frame


def _frame_ns(stream: Any) -> int:
    return int(1e9 / stream.average_rate) if stream.average_rate else 33_000_000


def _rgb(frame: Any) -> NDArray[np.uint8]:
    """``[height, width, 3]``; FFmpeg applies the colour matrix and range that the frame is tagged with."""
    return set_upright(frame.to_ndarray(format="rgb24"), _orientation(frame))


def _orientation(frame: Any) -> int:
    """EXIF's number for the frame's display matrix. ``frame.rotation`` would leave out that it mirrors."""
    for _ in range(_MOST_UNKNOWN_KINDS):
        try:
            matrix = frame.side_data.get("DISPLAYMATRIX")
        except ValueError as error:  # "31 is not a valid Type": PyAV's list of kinds is shorter than FFmpeg's
            frame = _without_side_data(frame, kind=str(error).split()[0])
        else:
            return UPRIGHT if matrix is None else from_display_matrix(np.frombuffer(matrix, np.int32))
    return UPRIGHT


def _without_side_data(frame: Any, kind: str) -> Any:
    graph = av.filter.Graph()
    graph.link_nodes(
        graph.add_buffer(
            width=frame.width, height=frame.height, format=frame.format, time_base=Fraction(1, 1000)
        ),
        graph.add("sidedata", f"mode=delete:type={kind}"),
        graph.add("buffersink"),
    ).configure()
    graph.push(frame)
    return graph.pull()


def _has_no_white(video_format: Any) -> bool:
    """Whether samples are float or of 32 bits, so that nothing says which value is white."""
    is_float = re.search(r"f(16|32)(le|be)?$", video_format.name)
    return bool(is_float) or any(component.bits > 16 for component in video_format.components)


def _missing(stream: Any, frames: int, end_ns: int) -> str:
    """What the header promises and the frames do not keep; empty when it is all there.

    Only the video stream's own figures count: sound may well go on longer than the picture.
    """
    if stream.frames > frames:
        return f"{frames} of {stream.frames} frames"
    promised = float(stream.duration * stream.time_base) if stream.duration else _matroska_seconds(stream)
    if promised - end_ns / 1e9 > _MISSING_SECONDS:
        return f"{end_ns / 1e9:.2f} of {promised:.2f} s"
    return ""


def _matroska_seconds(stream: Any) -> float:
    """Matroska keeps a stream's length in a tag, ``00:00:06.066000000``."""
    seconds = 0.0
    try:
        for part in stream.metadata.get("DURATION", "0").split(":"):
            seconds = seconds * 60 + float(part)
    except ValueError:
        return 0.0
    return seconds
