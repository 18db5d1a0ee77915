# SPDX-License-Identifier: Apache-2.0
"""How well the kept frames stand for all that was seen, judged by features that no policy compares.

Two referees: colour at 32x16 (distance: root mean square in grey levels of 0..255) and histograms of
gradient orientation (shape, blind to colour and exposure). Small is good. They are proxies: what a policy is
worth to a trained model in closed loop is not measured here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.quantiles import quantile

RECENT = 8
_TIME_BINS = 20
_CELLS = (4, 8)  # rows and columns of gradient histograms: 16x16 pixels at 128x64
_ORIENTATIONS = 8


@dataclass(frozen=True, slots=True)
class Coverage:
    """Distance of each past frame to the nearest kept one: mean, 95th percentile, maximum."""

    mean: float
    p95: float
    max: float


def colour_features(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """``[n, height, width, 3]`` to 32x16 block means ``[n, 1536]``, scaled so that distances are RMS."""
    n, height, width, _ = pixels.shape
    blocks = pixels.reshape(n, 16, height // 16, 32, width // 32, 3).mean((2, 4), dtype=np.float32)
    return blocks.reshape(n, -1) / np.float32(np.sqrt(16 * 32 * 3))


def gradient_features(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """``[n, height, width, 3]`` to histograms of gradient orientation ``[n, 256]`` of unit length.

    Unsigned orientation in 8 bins, weighted by magnitude, in cells of 16x16 pixels (Dalal and Triggs 2005,
    without their overlapping blocks).
    """
    return np.stack([_gradient_histogram(picture) for picture in pixels])


def _gradient_histogram(picture: NDArray[np.uint8]) -> NDArray[np.float32]:
    grey = picture.mean(axis=2)
    down, right = np.gradient(grey)
    magnitude = np.hypot(down, right)
    bins = (np.arctan2(down, right) % np.pi * (_ORIENTATIONS / np.pi)).astype(np.int64) % _ORIENTATIONS
    height, width = grey.shape
    cell = np.add.outer(
        np.arange(height) * _CELLS[0] // height * _CELLS[1], np.arange(width) * _CELLS[1] // width
    )
    size = _CELLS[0] * _CELLS[1] * _ORIENTATIONS
    histogram = np.bincount((cell * _ORIENTATIONS + bins).ravel(), magnitude.ravel(), minlength=size)
    return (histogram / max(float(np.linalg.norm(histogram)), 1e-9)).astype(np.float32)


def distances(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """All Euclidean distances ``[n, n]`` between the rows of ``features`` ``[n, d]``."""
    wide = features.astype(np.float64)
    squares = (wide * wide).sum(axis=1)
    squared = squares[:, None] + squares - 2.0 * (wide @ wide.T)
    np.fill_diagonal(squared, 0.0)
    return np.sqrt(np.maximum(squared, 0.0)).astype(np.float32)


def coverage(between: NDArray[np.float32], kept: NDArray[np.int64], seen: int) -> Coverage:
    """``between``: ``[n, n]`` distances; ``kept``: stream positions below ``seen``."""
    nearest = np.sort(between[:seen, kept].min(axis=1))
    return Coverage(float(nearest.mean()), float(quantile(nearest, 0.95)), float(nearest[-1]))


def largest_hole(times_ns: NDArray[np.int64], kept: NDArray[np.int64]) -> float:
    """The longest time without a kept frame, as a share of the time seen (its ends count)."""
    edges = np.concatenate([times_ns[:1], times_ns[kept], times_ns[-1:]])
    span = int(times_ns[-1] - times_ns[0])
    return float(np.diff(edges).max() / span) if span else 0.0


def recent_kept(kept: NDArray[np.int64], seen: int) -> int:
    """How many of the latest 8 frames are kept."""
    return int((kept >= seen - RECENT).sum())


def time_bins_filled(times_ns: NDArray[np.int64], kept: NDArray[np.int64]) -> float:
    """Share of 20 equal stretches of the time seen that hold a kept frame."""
    span = int(times_ns[-1] - times_ns[0]) + 1
    bins = (times_ns[kept] - times_ns[0]) * _TIME_BINS // span
    return len(np.unique(bins)) / _TIME_BINS


def scene_recall(scenes: NDArray[np.int64], kept: NDArray[np.int64]) -> float:
    """Share of the scenes seen of which at least one frame is kept. ``scenes``: ``[seen]``."""
    return len(np.unique(scenes[kept])) / len(np.unique(scenes))
