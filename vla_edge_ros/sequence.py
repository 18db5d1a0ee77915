# SPDX-License-Identifier: Apache-2.0
"""The sequence that a decoder sees in one chunk, as a value: which tokens, how many, what is kept of them.

In rank order, which is a token's position::

    prompt | kept frames, oldest first | incoming frame | suffix | action
    pinned | each one or more pages    | likewise       | anew   | anew

The prompt is pinned. The incoming frame is kept when its chunk is committed, unless nothing is remembered.
The suffix (an instruction behind the picture, a robot's state) and the action are computed anew in each
chunk; their keys and values lie in transient pages that no other chunk sees.

Everything that depends on this order takes it from here: the cache's pages, the engines' passes, warm-up and
admission's number of decode steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Decoding(Enum):
    """How a chunk's action tokens are produced."""

    AUTOREGRESSIVE = "autoregressive"  # one after the other, each the next one's input
    PARALLEL = "parallel"  # all at once, from learned query tokens behind the frame (OpenVLA-OFT, 2502.19645)


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceLayout:
    """Counts of tokens and of the pages of ``page_slots`` slots that they take.

    ``prompt_pages`` and ``suffix_tokens`` are room: a prompt or a suffix may be shorter, or empty.
    ``most_frames``: how many frames are remembered; 0 for a model that was trained on one picture, None for
    as many as fit.
    """

    page_slots: int
    prompt_pages: int
    frame_tokens: int
    suffix_tokens: int = 0
    action_tokens: int
    decoding: Decoding = Decoding.AUTOREGRESSIVE
    most_frames: int | None = None

    @property
    def frame_pages(self) -> int:
        """Pages of one frame; the last one may be partly filled."""
        return self._pages(self.frame_tokens)

    @property
    def suffix_pages(self) -> int:
        """Transient pages of the suffix."""
        return self._pages(self.suffix_tokens)

    @property
    def transient_pages(self) -> int:
        """The suffix's, and one for the action's tokens."""
        return self.suffix_pages + 1

    @property
    def decode_steps(self) -> int:
        """Passes behind the prefill that a chunk takes without draft tokens; its prefill gives one token."""
        return self.action_tokens - 1 if self.decoding is Decoding.AUTOREGRESSIVE else 0

    @property
    def frame_fills(self) -> NDArray[np.int32]:
        """``[frame_pages]``: valid slots of each page of a frame."""
        return self.fills(self.frame_tokens)

    def fills(self, tokens: int) -> NDArray[np.int32]:
        """Valid slots of each page that ``tokens`` take, all full but the last; empty for none. Read-only."""
        return _fills(tokens, self.page_slots)

    @property
    def fixed_pages(self) -> int:
        """What a chunk needs beside the remembered frames: prompt, transient pages and the incoming frame."""
        return self.prompt_pages + self.transient_pages + self.frame_pages

    def room(self, pages: int) -> int:
        """Frames that ``pages`` remember beside the incoming one; negative where a chunk has no room."""
        fit = (pages - self.fixed_pages) // self.frame_pages
        return fit if self.most_frames is None else min(fit, self.most_frames)

    def _pages(self, tokens: int) -> int:
        return -(-tokens // self.page_slots)


@lru_cache(maxsize=256)  # asked several times a chunk, on the path to the first kernel
def _fills(tokens: int, page_slots: int) -> NDArray[np.int32]:
    import numpy as np  # here, since launch files read configurations under a Python that may lack it

    pages = -(-tokens // page_slots)
    filled = np.full(pages, page_slots, np.int32)
    if pages:
        filled[-1] = tokens - (pages - 1) * page_slots
    filled.setflags(write=False)
    return filled
