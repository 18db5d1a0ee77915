# SPDX-License-Identifier: Apache-2.0
"""What a frame is compared by when the memory decides which one to forget.

A mean over patch embeddings sees no layout (shuffled patches give the same mean) and follows exposure. A
zero-mean thumbnail keeps the layout, and the cosine of two is their zero-normalised cross-correlation, which
neither gain nor offset of the exposure changes. Cell colours keep the colours too, and are compared cell by
cell: a lamp that lights up changes two hundredths of what the camera sees, which a cosine does not notice and
the largest difference of any cell does.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

THUMBNAIL_WIDTH = 16
THUMBNAIL_HEIGHT = 8
THUMBNAIL_SIZE = THUMBNAIL_WIDTH * THUMBNAIL_HEIGHT

CELLS_SIZE = THUMBNAIL_SIZE * 3

_GREY_WEIGHTS = (77.0, 150.0, 29.0)  # ITU-R BT.601 luma in 1/256

# Standard deviation, in grey levels, below which a thumbnail shows sensor noise rather than a scene. Noise of
# 1 grey level is 0.1 in the mean of a 8x8 cell; pictures of a scene are above 10.
_BLANK_CONTRAST = 1.0

# The median brightness that every picture's cells are brought to, so that a lamp that dims is no change, and
# the one below which that would show the sensor's noise.
_MEDIAN_GREY = 110.0
_DARK = 4.0


def descriptor_size(kind: str, hidden_size: int) -> int:
    """Values of a descriptor of this kind; ``hidden_size`` is the engine's embedding width."""
    return {
        "none": 0,
        "thumbnail": THUMBNAIL_SIZE,
        "cells": CELLS_SIZE,
        "embedding": hidden_size,
    }[kind]


def describe(
    kind: str, pixels: NDArray[np.uint8], embedding: NDArray[np.float32]
) -> NDArray[np.float32] | None:
    """The descriptor of one frame, as ``EvictionPolicy.descriptor`` asks for it.

    ``pixels``: uint8 ``[height, width, 3]`` RGB; ``embedding``: ``[hidden]``, the mean vision token.
    """
    if kind == "thumbnail":
        return thumbnail(pixels)
    if kind == "cells":
        return cell_colours(pixels)
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
    _, columns, areas = _cells(height, width)
    grey = (_row_sums(pixels) @ columns) / areas
    centred = grey - grey.mean()
    length = np.sqrt((centred * centred).sum())
    if length < _BLANK_CONTRAST * 256 * np.sqrt(THUMBNAIL_SIZE):
        return np.zeros(THUMBNAIL_SIZE, np.float32)
    return (centred / length).astype(np.float32).ravel()


def cell_colours(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Mean colours of 16x8 cells, whole grey levels 0 to 255: float32 ``[384]``, cell by cell in rows, RGB.

    ``pixels``: uint8 ``[height, width, 3]`` RGB of any size. Scaled to a common median brightness, which
    neither a small object nor the exposure changes; a picture of nothing gives zeros. Sums are integers and
    the rest is single operations in float64: the same picture gives the same bits everywhere.
    """
    height, width, _ = pixels.shape
    columns, areas = _membership(width, THUMBNAIL_WIDTH), _cells(height, width)[2]
    sums = columns @ _row_sums(pixels).reshape(THUMBNAIL_HEIGHT, width, 3)
    grey = sums @ _GREY_WEIGHTS / areas / 256.0
    ordered = np.sort(grey, axis=None)
    median = (ordered[THUMBNAIL_SIZE // 2 - 1] + ordered[THUMBNAIL_SIZE // 2]) / 2.0
    if median < _DARK or ordered[-1] - ordered[0] < _BLANK_CONTRAST:
        return np.zeros(CELLS_SIZE, np.float32)
    scaled = np.rint(sums / areas[..., None] * (_MEDIAN_GREY / median))
    return np.minimum(scaled, 255.0).astype(np.float32).ravel()


def _row_sums(pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Sums down the columns of each of the 8 rows of cells, ``[8, width * 3]``."""
    height, width, _ = pixels.shape
    rows, _, _ = _cells(height, width)
    # float32 holds a sum of up to 65,793 bytes exactly, so sums down a column are exact; the rest is float64.
    return (rows @ pixels.reshape(height, width * 3).astype(np.float32)).astype(np.float64)


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


@cache
def _membership(length: int, cells: int) -> NDArray[np.float64]:
    """``[cells, length]``: 1 where a cell covers a pixel."""
    first = np.arange(cells) * length // cells
    after = np.maximum(np.arange(1, cells + 1) * length // cells, first + 1)
    place = np.arange(length)
    return ((first[:, None] <= place) & (place < after[:, None])).astype(np.float64)
