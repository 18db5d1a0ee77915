# SPDX-License-Identifier: Apache-2.0
"""A frame source: pictures with their media time, whatever they come from."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.errors import shown

LOGGER = logging.getLogger("vla_edge_ros.replay")


@dataclass(frozen=True, slots=True)
class SourceFrame:
    """``pixels``: uint8 ``[height, width, 3]`` RGB, C-contiguous, never written to afterwards.

    ``media_ns``: time since the source's first frame; never falls within a pass.
    """

    pixels: NDArray[np.uint8]
    media_ns: int


class FrameSource(Protocol):
    """Pictures in order, decoded as they are asked for: no source holds its whole file in memory.

    Iterating starts a new pass from the first frame; one pass at a time. Damage in the middle of a file ends
    the pass (or skips the frame) with a warning on ``LOGGER``, once a source; a pass without any frame raises
    ``SourceError``. ``name`` is what the user gave, for messages.
    """

    name: str

    def __iter__(self) -> Iterator[SourceFrame]: ...

    def close(self) -> None:
        """Let go of the file; safe to call twice."""
        ...


MOST_WARNINGS = 50


class WarnOnce:
    """Warnings that a looping source would otherwise repeat every pass; ``MOST_WARNINGS`` different ones."""

    def __init__(self, name: str):
        self._name = name
        self._said: set[str] = set()

    def __call__(self, text: str) -> None:
        text = shown(text)
        if text in self._said or len(self._said) > MOST_WARNINGS:
            return
        self._said.add(text)
        if len(self._said) > MOST_WARNINGS:  # a bag may hold thousands of broken messages
            text = "further warnings are not shown"
        LOGGER.warning("%s: %s", self._name, text)
