# SPDX-License-Identifier: Apache-2.0
"""Turned and mirrored videos are set upright; Pillow is the judge."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from vla_edge_ros.replay.video import VideoSource


def turn(path: Path, a: int, b: int, c: int, d: int) -> None:
    """Write a display matrix into an mp4's track header: ``x' = a x + c y``, ``y' = b x + d y``, y down."""
    data = bytearray(path.read_bytes())
    matrix = data.index(b"tkhd") + 4 + 40
    one, w = 1 << 16, 1 << 30
    data[matrix : matrix + 36] = struct.pack(">9i", a * one, b * one, 0, c * one, d * one, 0, 0, 0, w)
    path.write_bytes(data)


# What EXIF's number n means, as a display matrix (a, b, c, d).
MATRICES = {
    1: (1, 0, 0, 1),
    2: (-1, 0, 0, 1),
    3: (-1, 0, 0, -1),
    4: (1, 0, 0, -1),
    5: (0, 1, 1, 0),
    6: (0, 1, -1, 0),  # clockwise: x grows downwards, y to the left
    7: (0, -1, -1, 0),
    8: (0, -1, 1, 0),
}


QUARTERS = np.zeros((48, 64, 3), np.uint8)
QUARTERS[:24, :32], QUARTERS[:24, 32:], QUARTERS[24:, :32] = 240, 160, 80


def upright(orientation: int) -> np.ndarray:
    """Pillow's answer for ``QUARTERS`` with this EXIF tag."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    file = io.BytesIO()
    Image.fromarray(QUARTERS).save(file, "PNG", exif=exif)
    return np.asarray(ImageOps.exif_transpose(Image.open(file)))


@pytest.mark.parametrize("orientation", MATRICES)
def test_a_turned_or_mirrored_picture_is_set_upright(orientation, write_video):
    path = write_video("turned.mp4", [QUARTERS])
    turn(path, *MATRICES[orientation])
    (frame,) = VideoSource(path)
    truth = upright(orientation)
    assert frame.pixels.shape == truth.shape
    assert np.abs(frame.pixels.astype(int) - truth).mean() < 3
    assert frame.pixels.flags.c_contiguous


@pytest.mark.parametrize("orientation", MATRICES)
def test_a_film_of_stills_is_set_upright_by_their_exif_tags(orientation, tmp_path):
    """FFmpeg also hands the EXIF block itself on, as side data of a kind that PyAV may not know."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    file = io.BytesIO()
    Image.fromarray(QUARTERS).save(file, "JPEG", exif=exif, quality=95)
    path = tmp_path / "film.mjpeg"
    path.write_bytes(file.getvalue() * 2)
    frames = list(VideoSource(path))
    assert len(frames) == 2
    for frame in frames:
        truth = upright(orientation)
        assert frame.pixels.shape == truth.shape
        assert np.abs(frame.pixels.astype(int) - truth).mean() < 3
