# SPDX-License-Identifier: Apache-2.0
"""What a frame is compared by when the memory decides which one to forget.

A mean over patch embeddings sees no layout (shuffled patches give the same mean) and follows exposure. A
zero-mean thumbnail keeps the layout, and the cosine of two is their zero-normalised cross-correlation, which
neither gain nor offset of the exposure changes.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

THUMBNAIL_WIDTH = 16
THUMBNAIL_HEIGHT = 8
THUMBNAIL_SIZE = THUMBNAIL_WIDTH * THUMBNAIL_HEIGHT

_GREY_WEIGHTS = (77.0, 150.0, 29.0)  # ITU-R BT.601 luma in 1/256

# Standard deviation, in grey levels, below which a thumbnail shows sensor noise rather than a scene. Noise of
# 1 grey level is 0.1 in the mean of a 8x8 cell; pictures of a scene are above 10.
_BLANK_CONTRAST = 1.0


def descriptor_size(kind: str, hidden_size: int) -> int:
    """Values of a descriptor of this kind; ``hidden_size`` is the engine's embedding width."""
    return {"none": 0, "thumbnail": THUMBNAIL_SIZE, "embedding": hidden_size}[kind]


def describe(
    kind: str, pixels: NDArray[np.uint8], embedding: NDArray[np.float32]
) -> NDArray[np.float32] | None:
    """The descriptor of one frame, as ``EvictionPolicy.descriptor`` asks for it.

    ``pixels``: uint8 ``[height, width, 3]`` RGB; ``embedding``: ``[hidden]``, the mean vision token.
    """
    if kind == "thumbnail":
        return thumbnail(pixels)
    if kind == "embedding":
        return embedding
    assert kind == "none", f"unknown descriptor {kind!r}"
    return None


def thumbnail(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Zero-mean 16x8 grey picture of unit length, float32 ``[128]`` in rows; zeros for a picture of nothing.

    ``pixels``: uint8 ``[height, width, 3]`` RGB of any size. Sums are integers, so the same picture gives
    the same bits everywhere.
    """
    height, width, _ = pixels.shape
    rows, columns, areas = _cells(height, width)
    # float32 holds a sum of up to 65,793 bytes exactly, so sums down a column are exact; the rest is float64.
    sums = rows @ pixels.reshape(height, width * 3).astype(np.float32)
    grey = (sums.astype(np.float64) @ columns) / areas
    centred = grey - grey.mean()
    length = np.sqrt((centred * centred).sum())
    if length < _BLANK_CONTRAST * 256 * np.sqrt(THUMBNAIL_SIZE):
        return np.zeros(THUMBNAIL_SIZE, np.float32)
    return (centred / length).astype(np.float32).ravel()


@cache
def _cells(height: int, width: int) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.float64]]:
    """The 16x8 cells as two matrices, and the pixels of each cell ``[8, 16]``.

    ``rows`` ``[8, height]`` adds up pixels of a column, ``columns`` ``[width * 3, 16]`` those of a row,
    weighted to grey. A picture below 16x8 repeats its pixels.
    """
    rows = _membership(height, THUMBNAIL_HEIGHT)
    columns = _membership(width, THUMBNAIL_WIDTH)
    areas = rows.sum(axis=1)[:, None] * columns.sum(axis=1)
    greyed = np.kron(columns, _GREY_WEIGHTS).astype(np.float64, copy=False)
    return rows.astype(np.float32), greyed.T, areas


def _membership(length: int, cells: int) -> NDArray[np.float64]:
    """``[cells, length]``: 1 where a cell covers a pixel."""
    first = np.arange(cells) * length // cells
    after = np.maximum(np.arange(1, cells + 1) * length // cells, first + 1)
    place = np.arange(length)
    return ((first[:, None] <= place) & (place < after[:, None])).astype(np.float64)
