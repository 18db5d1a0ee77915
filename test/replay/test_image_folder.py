# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image, ImageOps

from vla_edge_ros.errors import SourceError
from vla_edge_ros.replay.image_folder import ImageFolderSource, is_one_picture
from vla_edge_ros.replay.open_source import open_source


def test_images_play_in_natural_order_at_the_given_rate(tmp_path):
    for number in (10, 2, 1, 30):
        Image.new("RGB", (8, 6), (number, 0, 0)).save(tmp_path / f"frame{number}.png")
    frames = list(ImageFolderSource(tmp_path, rate_hz=20.0))
    assert [int(frame.pixels[0, 0, 0]) for frame in frames] == [1, 2, 10, 30]
    assert [frame.media_ns for frame in frames] == [0, 50_000_000, 100_000_000, 150_000_000]


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


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".tiff", ".webp"])
@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("alone", [False, True])
def test_all_eight_exif_orientations_are_set_upright(alone, orientation, suffix, tmp_path):
    """In a folder, and as a file that the user names; Pillow is the judge."""
    pixels = cv2.resize(np.random.default_rng(1).integers(0, 255, (3, 4, 3), np.uint8), (32, 16))
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / f"a{suffix}"
    Image.fromarray(pixels).save(path, exif=exif, **({"lossless": True} if suffix == ".webp" else {}))
    truth = np.asarray(ImageOps.exif_transpose(Image.open(path)).convert("RGB"))
    (frame,) = open_source(str(path if alone else tmp_path))
    assert np.array_equal(frame.pixels, truth)


def test_names_with_fractions_play_in_the_order_of_their_times(tmp_path):
    for level, name in enumerate(["1700000000.05", "1700000000.1", "1700000000.125", "1700000000.2"]):
        Image.new("L", (4, 4), level).save(tmp_path / f"{name}.png")
    assert [int(frame.pixels[0, 0, 0]) for frame in ImageFolderSource(tmp_path, 60.0)] == [0, 1, 2, 3]


@pytest.mark.parametrize("name", ["depth.tiff", "depth.pfm", "colour.pfm"])
@pytest.mark.parametrize("alone", [False, True])
def test_pictures_of_floats_are_refused_with_the_reason(alone, name, tmp_path):
    samples = np.full((6, 8, 3) if "colour" in name else (6, 8), 0.5, np.float32)
    (tmp_path / name).write_bytes(cv2.imencode(Path(name).suffix, samples)[1].tobytes())
    reason = "8 or 16|without images"  # Pillow before 10.3 does not know the suffix .pfm
    with pytest.raises(SourceError, match=reason if not alone else "8 or 16"):
        open_source(str(tmp_path / name if alone else tmp_path))


def test_a_film_is_not_taken_for_its_first_picture(tmp_path):
    first, second = Image.new("RGB", (8, 8), (255, 0, 0)), Image.new("RGB", (8, 8), (0, 0, 255))
    for name in ("film.gif", "film.webp", "film.png"):
        first.save(tmp_path / name, save_all=True, append_images=[second], duration=40)
        assert is_one_picture(tmp_path / name) is False
    first.save(tmp_path / "film.mjpeg", "JPEG")
    assert is_one_picture(tmp_path / "film.mjpeg") is False
    first.save(tmp_path / "pages.tiff", save_all=True, append_images=[second])
    assert is_one_picture(tmp_path / "pages.tiff") is True


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
