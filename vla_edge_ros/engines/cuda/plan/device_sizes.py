# SPDX-License-Identifier: Apache-2.0
"""What is asked of the device before anything is planned for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Device:
    """``architecture`` is 90 for sm_90; ``shared_bytes`` is a block's limit, ``shared_bytes_sm`` an SM's.

    ``l2_bytes`` of 0: not known.
    """

    name: str
    architecture: int
    multiprocessors: int
    shared_bytes: int
    shared_bytes_sm: int
    l2_bytes: int = 0

    @property
    def overlaps_kernels(self) -> bool:
        """Programmatic dependent launch."""
        return self.architecture >= 90
