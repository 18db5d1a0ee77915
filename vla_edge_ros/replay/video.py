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
from av.video.reformatter import VideoReformatter

from vla_edge_ros.errors import SourceError
from vla_edge_ros.orientation import UPRIGHT, from_display_matrix, set_upright
from vla_edge_ros.replay import gif_file
from vla_edge_ros.replay.base import SourceFrame, WarnOnce
from vla_edge_ros.types import NS_PER_S

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
            # One for all frames: each of its own would start threads, and keep them until it is collected.
            to_rgb, orientation = VideoReformatter(), UPRIGHT
            is_unfinished = container.format.name == "gif" and not gif_file.is_whole(self._path)
            for frame in _decoded(container, stream, damage, is_unfinished):
                if frame.pts is None or frame.time_base is None:
                    at_ns = media_ns + gap_ns if frames else 0
                else:
                    stamp_ns = int(frame.pts * frame.time_base * NS_PER_S)
                    first_ns = stamp_ns if first_ns is None else first_ns
                    at_ns = stamp_ns - first_ns
                media_ns = max(media_ns, at_ns)
                frames += 1
                if _has_no_white(frame.format):
                    raise SourceError(
                        f"source {self.name} must have 8 or 16-bit samples, got {frame.format.name}"
                    )
                # Not of every frame: PyAV holds one whose side data was read until Python collects cycles.
                if frame.key_frame or frames == 1:
                    orientation = _orientation(frame)
                # FFmpeg applies the colour matrix and range that the frame is tagged with.
                pixels = to_rgb.reformat(frame, format="rgb24").to_ndarray()
                yield SourceFrame(set_upright(pixels, orientation), media_ns)
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
            container = av.open(f"file:{self._path}", metadata_errors="replace")
        except (av.FFmpegError, OSError) as error:
            raise SourceError(
                f"source {self.name} is not a video that FFmpeg can read ({error.strerror or error}); "
                "an mp4 that was cut short before its index was written cannot be played"
            ) from None
        if container.format.name in _NOT_VIDEO:
            container.close()
            raise SourceError(f"source {self.name} is not a video ({container.format.long_name})")
        return container


def _decoded(container: Any, stream: Any, damage: set[str], is_unfinished: bool) -> Iterator[Any]:
    """Whole frames only. A damaged packet or frame is left out and noted; reading goes on, as in players.

    ``is_unfinished``: the last packet is not whole, which its format does not tell.
    """
    packets = container.demux(stream)
    if is_unfinished:
        packets = _all_but_the_last(packets)
        damage.add("the last packet is incomplete")
    while True:
        try:
            packet = next(packets, None)
        except av.FFmpegError as error:  # the file itself cannot be read on from here
            damage.add(str(error))
            return
        if packet is None:
            return
        if packet.is_corrupt:  # the file ends in it: a decoder would make up the rest of the picture
            damage.add("a packet is incomplete")
            continue
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
    return int(NS_PER_S / stream.average_rate) if stream.average_rate else 33_000_000


def _all_but_the_last(packets: Iterator[Any]) -> Iterator[Any]:
    """A demuxer's packets without the last one that has data; the empty one after it flushes the decoder."""
    held = None
    for packet in packets:
        if packet.size == 0:
            yield packet
        else:
            if held is not None:
                yield held
            held = packet


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
    if promised - end_ns / NS_PER_S > _MISSING_SECONDS:
        return f"{end_ns / NS_PER_S:.2f} of {promised:.2f} s"
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
