# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from vla_edge_ros.errors import SourceError
from vla_edge_ros.replay.image_folder import ImageFolderSource, natural_key
from vla_edge_ros.replay.open_source import open_source


def test_images_play_in_natural_order_at_the_given_rate(tmp_path):
    for number in (10, 2, 1, 30):
        Image.new("RGB", (8, 6), (number, 0, 0)).save(tmp_path / f"frame{number}.png")
    frames = list(ImageFolderSource(tmp_path, rate_hz=20.0))
    assert [int(frame.pixels[0, 0, 0]) for frame in frames] == [1, 2, 10, 30]
    assert [frame.media_ns for frame in frames] == [0, 50_000_000, 100_000_000, 150_000_000]


@given(st.lists(st.integers(0, 10**9), unique=True))
def test_natural_order_is_numeric_order(numbers):
    names = sorted((f"a{number}.png" for number in numbers), key=natural_key)
    assert names == [f"a{number}.png" for number in sorted(numbers)]


@given(st.lists(st.text(max_size=8)))
def test_any_names_can_be_ordered(names):
    assert sorted(sorted(names, key=natural_key)) == sorted(names)


def test_superscript_is_a_digit_but_no_number():
    assert sorted(["10\u00b25.png", "9.png"], key=natural_key) == ["9.png", "10\u00b25.png"]


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".ppm", ".webp", ".tiff", ".JPG"])
def test_formats_decode_as_opencv_decodes_them(suffix, tmp_path):
    rng = np.random.default_rng(3)
    smooth = cv2.resize(rng.integers(0, 255, (4, 5, 3), np.uint8), (50, 40), interpolation=cv2.INTER_CUBIC)
    Image.fromarray(smooth).save(tmp_path / f"a{suffix}", **({"lossless": True} if suffix == ".webp" else {}))
    (frame,) = open_source(str(tmp_path))
    truth = cv2.imread(str(tmp_path / f"a{suffix}"), cv2.IMREAD_COLOR_RGB)
    assert np.abs(frame.pixels.astype(int) - truth).max() <= (4 if suffix == ".JPG" else 0)


def test_grey_palette_alpha_and_sixteen_bit_become_rgb(tmp_path):
    grey = np.arange(256, dtype=np.uint8).reshape(16, 16)
    Image.fromarray(grey).save(tmp_path / "1.png")
    Image.fromarray(np.dstack([grey] * 3)).quantize(256).save(tmp_path / "2.png")
    Image.fromarray(np.dstack([grey, grey, grey, np.zeros_like(grey)])).save(tmp_path / "3.png")
    Image.fromarray(grey.astype(np.uint16) * 257).save(tmp_path / "4.png")
    frames = list(ImageFolderSource(tmp_path, 60.0))
    assert len(frames) == 4
    for frame in frames:
        assert frame.pixels.dtype == np.uint8 and frame.pixels.shape == (16, 16, 3)
        assert np.array_equal(frame.pixels, np.dstack([grey] * 3))


def test_exif_orientation_is_applied(tmp_path):
    pixels = np.zeros((16, 32, 3), np.uint8)
    pixels[:, :16] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned a quarter clockwise: the left side becomes the top
    Image.fromarray(pixels).save(tmp_path / "a.jpg", exif=exif, quality=95)
    (frame,) = ImageFolderSource(tmp_path, 60.0)
    assert frame.pixels.shape == (32, 16, 3)
    assert frame.pixels[2, 8, 0] > 240 and frame.pixels[-3, 8, 0] < 15


def test_broken_images_are_left_out_with_one_warning_each(tmp_path, warnings):
    good = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)
    Image.fromarray(good).save(tmp_path / "a.png")
    Image.fromarray(good).save(tmp_path / "b.jpg")
    (tmp_path / "b.jpg").write_bytes((tmp_path / "b.jpg").read_bytes()[:900])
    (tmp_path / "c.png").write_bytes(b"")
    (tmp_path / "d.png").write_text("no picture")
    (tmp_path / ".hidden.png").write_text("a file browser's own")
    (tmp_path / "notes.txt").write_text("no picture by its name")
    source = ImageFolderSource(tmp_path, 60.0)
    for _ in range(2):
        assert len(list(source)) == 1
    assert sorted(text.split(": ")[1].split()[0] for text in warnings()) == ["b.jpg", "c.png", "d.png"]


def test_a_folder_with_only_broken_images_is_one_clear_error(tmp_path):
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    with pytest.raises(SourceError, match="none of its 1 image files can be decoded"):
        open_source(str(tmp_path))


def test_a_folder_without_images_is_one_clear_error(tmp_path):
    (tmp_path / "readme.txt").write_text("x")
    with pytest.raises(SourceError, match=f"{tmp_path} is a folder without images"):
        open_source(str(tmp_path))
