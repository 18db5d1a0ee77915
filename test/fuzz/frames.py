# SPDX-License-Identifier: Apache-2.0
"""Playing a source as the replay camera does, with what must hold of every frame checked on the way."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import Any

import numpy as np
from worker import refusal

from vla_edge_ros.errors import VlaEdgeError
from vla_edge_ros.replay.open_source import open_source

MOST_FRAMES = 100


@dataclass(frozen=True)
class Played:
    """``frames``: media time and a digest of the pixels; ``error``: the refusal instead of any."""

    frames: tuple[tuple[int, str], ...] = ()
    error: str = ""


def play(path: Any, is_repeatable: bool = True, bag_topic: str = "") -> Played:
    """Two passes over the first frames of ``path``; they must be alike where ``is_repeatable``."""
    try:
        source = open_source(str(path), bag_topic=bag_topic)
    except VlaEdgeError as error:
        refusal(error)
        return Played(error=str(error))
    try:
        first, second = _one_pass(source), _one_pass(source)
    finally:
        source.close()
    assert first, "a source that opens has a frame"
    if not is_repeatable:
        return Played(first)
    assert len(first) == len(second), f"{len(first)} frames in the first pass, {len(second)} in the second"
    different = [
        index for index, frames in enumerate(zip(first, second, strict=True)) if len(set(frames)) > 1
    ]
    assert not different, f"frames {different} are others in the second pass"
    return Played(first)


def _one_pass(source: Any) -> tuple[tuple[int, str], ...]:
    frames, last_ns = [], 0
    for frame in islice(source, MOST_FRAMES):
        assert frame.pixels.dtype == np.uint8 and frame.pixels.ndim == 3 and frame.pixels.shape[2] == 3
        assert frame.pixels.flags.c_contiguous and frame.pixels.size
        assert type(frame.media_ns) is int and last_ns <= frame.media_ns < 2**64, (last_ns, frame.media_ns)
        last_ns = frame.media_ns
        frames.append((last_ns, f"{frame.pixels.shape} {sha256(frame.pixels).hexdigest()[:16]}"))
    return tuple(frames)
