# SPDX-License-Identifier: Apache-2.0
"""Real clips as streams of model-sized frames; clips joined with known cuts; frames broken on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.config import FrameConfig
from vla_edge_ros.errors import SourceError
from vla_edge_ros.imaging import resize_rgb
from vla_edge_ros.replay.video import VideoSource

VIDEO_SUFFIXES = {".mp4", ".mkv", ".webm", ".avi", ".mov"}
GLITCH_KINDS = ("noise", "black", "white")
_FRAME = FrameConfig()


@dataclass(frozen=True, slots=True)
class Footage:
    """``pixels``: uint8 ``[n, height, width, 3]``; ``stamps_ns``: int64 ``[n]``; ``scenes``: int ``[n]``."""

    name: str
    pixels: NDArray[np.uint8]
    stamps_ns: NDArray[np.int64]
    scenes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.pixels)


def read_clips(folder: Path) -> list[Footage]:
    """Every video in ``folder`` by name, at the model's frame size and its own frame times."""
    paths = sorted(path for path in folder.glob("*") if path.suffix in VIDEO_SUFFIXES)
    if not paths:
        raise SourceError(f"no video ({', '.join(sorted(VIDEO_SUFFIXES))}) in {folder}")
    return [read_clip(path) for path in paths]


def read_clip(path: Path) -> Footage:
    frames = [(resize_rgb(f.pixels, _FRAME.width, _FRAME.height), f.media_ns) for f in VideoSource(path)]
    pixels = np.stack([picture for picture, _ in frames])
    stamps_ns = np.array([media_ns for _, media_ns in frames], np.int64)
    return Footage(path.stem, pixels, stamps_ns, np.zeros(len(frames), np.int64))


def join(name: str, clips: Sequence[Footage], piece_frames: int) -> Footage:
    """One stream of pieces of at most ``piece_frames``, a piece of each clip in turn; each piece is a scene.

    Longer clips come back again and again with other scenes between, as a robot comes back to its table.
    """
    rounds = range(-(-max(len(clip) for clip in clips) // piece_frames))
    pieces = [
        slice_of(clip, number * piece_frames, (number + 1) * piece_frames)
        for number in rounds
        for clip in clips
        if number * piece_frames < len(clip)
    ]
    stamps_ns, end_ns = [], 0
    for piece in pieces:
        stamps_ns.append(end_ns + piece.stamps_ns - piece.stamps_ns[0])
        end_ns = int(stamps_ns[-1][-1]) + _period_ns(piece)
    return Footage(
        name,
        np.concatenate([piece.pixels for piece in pieces]),
        np.concatenate(stamps_ns),
        np.repeat(np.arange(len(pieces)), [len(piece) for piece in pieces]),
    )


def slice_of(footage: Footage, start: int, stop: int) -> Footage:
    return replace(
        footage,
        pixels=footage.pixels[start:stop],
        stamps_ns=footage.stamps_ns[start:stop],
        scenes=footage.scenes[start:stop],
    )


def with_glitches(footage: Footage) -> tuple[Footage, NDArray[np.int64]]:
    """Single noise, black and white frames in place of those at 1/4, 2/5 and 11/20 of the stream."""
    places = np.array([len(footage) // 4, len(footage) * 2 // 5, len(footage) * 11 // 20])
    pixels = footage.pixels.copy()
    shape = pixels.shape[1:]
    noise = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    glitches: list[NDArray[np.uint8] | int] = [noise, 0, 255]
    for place, picture in zip(places, glitches, strict=True):
        pixels[place] = picture
    return replace(footage, pixels=pixels), places


def _period_ns(footage: Footage) -> int:
    return int(np.median(np.diff(footage.stamps_ns))) if len(footage) > 1 else 33_333_333
