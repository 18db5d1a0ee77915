# SPDX-License-Identifier: Apache-2.0
"""Pillow is the judge of EXIF's numbers; a display matrix is followed pixel by pixel."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image, ImageOps

from vla_edge_ros.orientation import from_display_matrix, set_upright

PICTURE = np.random.default_rng(0).integers(0, 256, (4, 7, 3), np.uint8)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_exif_number_is_read_as_pillow_reads_it(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    file = io.BytesIO()
    Image.fromarray(PICTURE).save(file, "PNG", exif=exif)
    truth = np.asarray(ImageOps.exif_transpose(Image.open(file)))
    ours = set_upright(PICTURE, orientation)
    assert np.array_equal(ours, truth) and ours.flags.c_contiguous


@pytest.mark.parametrize("orientation", [0, 9, -1, 65535])
def test_a_number_without_a_meaning_changes_nothing(orientation):
    assert np.array_equal(set_upright(PICTURE, orientation), PICTURE)


def by_the_matrix(picture: np.ndarray, a: int, b: int, c: int, d: int) -> np.ndarray:
    """Each pixel's centre goes to ``x' = a x + c y``, ``y' = b x + d y``, then all begin at 0."""
    rows, columns = np.mgrid[: picture.shape[0], : picture.shape[1]]
    x, y = a * columns + c * rows, b * columns + d * rows
    x, y = x - x.min(), y - y.min()
    placed = np.zeros((y.max() + 1, x.max() + 1, 3), np.uint8)
    placed[y, x] = picture
    return placed


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("first", [1, -1])
@pytest.mark.parametrize("second", [1, -1])
def test_every_display_matrix_moves_pixels_where_it_says(swap, first, second):
    a, b, c, d = (0, first, second, 0) if swap else (first, 0, 0, second)
    matrix = np.array([a, b, 0, c, d, 0, 0, 0, 1], np.int32) << 16
    ours = set_upright(PICTURE, from_display_matrix(matrix))
    assert np.array_equal(ours, by_the_matrix(PICTURE, a, b, c, d))


def test_an_empty_matrix_changes_nothing_and_an_angle_counts_as_the_nearer():
    assert from_display_matrix(np.zeros(9, np.int32)) == 1
    for degrees, orientation in [(5, 1), (-5, 1), (80, 6), (100, 6), (175, 3), (-85, 8)]:
        cos, sin = (int(65536 * f(np.radians(degrees))) for f in (np.cos, np.sin))
        assert from_display_matrix(np.array([cos, sin, 0, -sin, cos, 0, 0, 0, 1 << 30])) == orientation
