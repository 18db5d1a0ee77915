# SPDX-License-Identifier: Apache-2.0
"""The newest frame, from writers that take turns to one reader thread, without a queue and without a lock.

Face of ``csrc/native/frame_slot.hpp``, where the protocol is explained.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.runtime.native import native
from vla_edge_ros.types import Frame


class FrameSlot:
    """Frames of uint8 ``[height, width, channels]``; ``leases`` distinct frames may be held at a time.

    ``memory_address`` and ``memory_bytes`` are whole pages of the slot's own, for page-locking (a GPU then
    reads frames in place). A GPU copy holds its frame until the copy's event has passed.
    """

    def __init__(self, height: int, width: int, channels: int = 3, leases: int = 4):
        self._native = native.FrameSlot(height, width, channels, leases)

    def write(self, pixels: NDArray[np.uint8], stamp_ns: int) -> bool:
        """Copy a frame in; True when it replaced one that nobody had read. Never waits, never allocates.

        Any thread, one at a time: ``RuntimeError``, counted in ``refused_writes``, while another write is in
        progress. ``ValueError`` for another shape, dtype or layout. Frames are numbered from 1. The GIL is
        free during the copy.
        """
        return self._native.write(pixels, stamp_ns)

    def latest(self) -> Frame | None:
        """The newest frame, read-only and without a copy; None before the first.

        Reader thread only. The pixels stay as they are while any view of them lives. ``BufferError`` when
        views of ``leases`` frames are alive and a newer frame is there: drop one of them.
        """
        latest = self._native.latest()
        if latest is None:
            return None
        pixels, sequence, stamp_ns, is_new = latest
        return Frame(pixels, stamp_ns, sequence, is_new)

    @property
    def written(self) -> int:
        """Frames written."""
        return self._native.written

    @property
    def overwritten(self) -> int:
        """Frames that were replaced before anybody read them."""
        return self._native.overwritten

    @property
    def taken(self) -> int:
        """Frames that were read, each counted once: written - overwritten - taken is 0 or 1."""
        return self._native.taken

    @property
    def refused_writes(self) -> int:
        """Writes that were refused because another one was in progress."""
        return self._native.refused_writes

    @property
    def memory_address(self) -> int:
        return self._native.memory_address

    @property
    def memory_bytes(self) -> int:
        return self._native.memory_bytes
