# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import struct
import zlib

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from vla_edge_ros.compressed_image import MOST_PIXELS, compressed_to_rgb, decode_picture
from vla_edge_ros.errors import ImageError
from vla_edge_ros.imaging import LAYOUTS, to_rgb

BGR = np.random.default_rng(0).integers(0, 256, (12, 16, 3), np.uint8)
RAMP = np.linspace(0, 65535, 12 * 16).astype(np.uint16).reshape(12, 16)
MOSAICS = {"rggb": "RG/GB", "bggr": "BG/GR", "gbrg": "GB/RG", "grbg": "GR/BG"}


def encoded(samples: np.ndarray, suffix: str = ".png") -> bytes:
    return cv2.imencode(suffix, samples)[1].tobytes()


def mosaic_of(rgb: tuple[int, int, int], corner: str, dtype: type = np.uint8) -> np.ndarray:
    """What a sensor behind the filter ``corner`` (its first two rows) sees of one flat colour."""
    mosaic = np.zeros((12, 16), dtype)
    for row, letters in enumerate(corner.split("/")):
        for column, letter in enumerate(letters):
            mosaic[row::2, column::2] = rgb["RGB".index(letter)]
    return mosaic


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".webp", ".tiff", ".bmp"])
@pytest.mark.parametrize(
    "format", ["jpeg", "png", "", "jpg", "rgb8; jpeg compressed bgr8", "bgr8; png compressed "]
)
def test_the_bytes_say_the_codec_and_opencv_agrees_on_the_picture(format, suffix):
    smooth = cv2.resize(BGR, (64, 48), interpolation=cv2.INTER_CUBIC)
    data = encoded(smooth, suffix)
    truth = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB).astype(int)
    ours = compressed_to_rgb(format, data)
    assert ours.dtype == np.uint8 and ours.flags.c_contiguous
    assert np.abs(ours - truth).max() <= (4 if suffix == ".jpg" else 0)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: np.frombuffer(data, np.uint8)])
def test_any_bytes_like_object_serves(kind):
    assert np.array_equal(compressed_to_rgb("png", kind(encoded(BGR))), BGR[..., ::-1])


@pytest.mark.parametrize("name", MOSAICS)
@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("stored", [True, False])
def test_a_stored_mosaic_has_its_colours_back(stored, bits, name):
    dtype = {8: np.uint8, 16: np.uint16}[bits]
    scale = 257 if bits == 16 else 1
    encoding = f"bayer_{name}{bits}"
    colour = (200, 100, 50)
    mosaic = mosaic_of(tuple(scale * c for c in colour), MOSAICS[name], dtype)
    ours = compressed_to_rgb(f"{encoding}; png compressed {encoding if stored else ''}", encoded(mosaic))
    assert np.abs(ours.astype(int) - colour).max() <= 1
    raw = to_rgb(12, 16, encoding, False, 0, mosaic.tobytes())
    assert np.array_equal(ours, raw)


@pytest.mark.parametrize("bits", [8, 16])
def test_a_mosaic_kept_as_jpeg_has_eight_bits_whatever_the_camera_had(bits):
    mosaic = mosaic_of((120, 120, 120), "RG/GB")
    ours = compressed_to_rgb(f"bayer_rggb{bits}; jpeg compressed ", encoded(mosaic, ".jpg"))
    assert np.abs(ours.astype(int) - 120).max() <= 2


def test_a_camera_with_a_mosaic_may_send_colours():
    for format in ("bayer_rggb8; jpeg compressed bgr8", "yuv422; png compressed bgr8"):
        assert np.array_equal(compressed_to_rgb(format, encoded(BGR)), BGR[..., ::-1])


def test_red_and_blue_are_exchanged_where_image_transport_says_so():
    """Its publisher then gave RGB to an encoder that takes BGR; its subscriber exchanges them again."""
    rgb = BGR[..., ::-1]
    assert np.array_equal(compressed_to_rgb("rgb8; png compressed rgb8", encoded(rgb)), rgb)
    assert np.array_equal(compressed_to_rgb("rgb8; png compressed bgr8", encoded(BGR)), rgb)


@pytest.mark.parametrize("format", ["mono16; png compressed ", "16UC1; png compressed 16UC1", "png"])
def test_sixteen_bit_grey_keeps_full_scale_full(format):
    truth = np.rint(RAMP / 257)[..., None].repeat(3, -1)
    assert np.array_equal(compressed_to_rgb(format, encoded(RAMP)), truth)


@pytest.mark.parametrize(
    "format",
    [
        "16UC1; compressedDepth",
        "16UC1; compressedDepth png",
        "32FC1; compressedDepth rvl",
        "32FC1; tiff compressed ",
        "h264",
        "H.265",
        "hevc",
        "bayer_rggb12; png compressed ",
        "BayerRG8; png compressed ",
        "nv12; png compressed ",
        "yuv422_yuy2; png compressed yuv422_yuy2",
    ],
)
def test_what_is_no_picture_is_refused_by_its_name(format):
    with pytest.raises(ImageError, match="format") as refusal:
        compressed_to_rgb(format, encoded(BGR[..., 0]))
    assert refusal.value.reason == "encoding" and repr(format) in str(refusal.value)


def png_that_promises(width: int, height: int) -> bytes:
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = (head, b"IDAT" + zlib.compress(b""), b"IEND")
    packed = (struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


@pytest.mark.parametrize("size", [(8193, 8192), (50_000, 50_000), (2**31 - 1, 2**31 - 1)])
def test_a_huge_picture_is_refused_before_it_is_decoded(size):
    with pytest.raises(ImageError) as refusal:
        compressed_to_rgb("png", png_that_promises(*size))
    assert refusal.value.reason == "size"


def test_the_limit_is_the_callers():
    assert MOST_PIXELS == 2**26
    assert compressed_to_rgb("png", encoded(BGR), most_pixels=192).shape == (12, 16, 3)
    with pytest.raises(ImageError, match="at most 191 pixels, got 16x12") as refusal:
        compressed_to_rgb("png", encoded(BGR), most_pixels=191)
    assert refusal.value.reason == "size"


def test_no_other_program_is_started_for_a_message():
    """Pillow hands PostScript to Ghostscript."""
    with pytest.raises(ImageError, match="not a picture"):
        compressed_to_rgb(
            "jpeg", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n"
        )


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint32, np.int16])
def test_samples_without_a_full_scale_are_refused(dtype):
    for data in (encoded((RAMP / 2).astype(dtype), ".tiff"),):
        with pytest.raises(ImageError, match="8 or 16"):
            decode_picture(data)
        with pytest.raises(ImageError, match="8 or 16"):
            compressed_to_rgb("tiff", data)


@pytest.mark.parametrize("shape", [(12, 16), (12, 16, 3)])
def test_a_float_map_is_refused(shape):
    with pytest.raises(ImageError, match="8 or 16"):
        decode_picture(encoded(np.full(shape, 0.5, np.float32), ".pfm"))


def tiff(bits: int, photometric: int, strip: bytes, width: int, height: int) -> bytes:
    """A little-endian TIFF of one grey strip, written by hand: no writer here makes these."""
    tags = [(256, width), (257, height), (258, bits), (259, 1), (262, photometric), (273, 0), (277, 1)]
    tags += [(278, height), (279, len(strip))]
    at = 8 + 2 + 12 * len(tags) + 4
    fields = b"".join(struct.pack("<HHII", tag, 4, 1, at if tag == 273 else value) for tag, value in tags)
    return struct.pack("<2sHIH", b"II", 42, 8, len(tags)) + fields + bytes(4) + strip


def test_a_scanner_that_counts_ink_is_read_the_right_way_round():
    data = tiff(16, 0, RAMP.tobytes(), 16, 12)
    assert np.array_equal(decode_picture(data)[..., 0], np.rint((65535 - RAMP.astype(int)) / 257))


def test_twelve_bits_are_scaled_by_twelve():
    white, black = b"\xff\xff\xff", b"\x00\x00\x00"  # two pixels each
    ours = decode_picture(tiff(12, 1, (white + black) * 2, 4, 2))
    assert ours[..., 0].tolist() == [[255, 255, 0, 0]] * 2


def test_a_grey_map_of_any_depth_is_scaled_by_its_own_white():
    data = b"P5 2 1 4095\n" + struct.pack(">HH", 4095, 2048)
    assert decode_picture(data)[0, :, 0].tolist() == [255, 128]


@given(st.binary(max_size=60), st.sampled_from([".png", ".jpg", ".tiff", ".webp", ".bmp", ".ppm"]), st.data())
def test_broken_bytes_are_a_picture_or_an_image_error(noise, suffix, data):
    whole = bytearray(encoded(BGR, suffix))
    at = data.draw(st.integers(0, len(whole)))
    for broken in (whole[:at] + noise + whole[at + len(noise) :], whole[:at], noise):
        for decode in (
            decode_picture,
            lambda pixels: compressed_to_rgb("bayer_rggb8; png compressed ", pixels),
        ):
            try:
                pixels = decode(bytes(broken))
            except ImageError as error:
                assert error.reason in ("data", "size", "encoding")
            else:
                assert pixels.dtype == np.uint8 and pixels.ndim == 3 and pixels.shape[2] == 3


@given(
    format=st.one_of(st.text(), st.sampled_from(sorted(LAYOUTS)).map(lambda name: f"{name}; png compressed "))
)
def test_any_format_is_a_picture_or_an_image_error(format):
    for samples in (BGR, BGR[..., 0]):
        try:
            assert compressed_to_rgb(format, encoded(samples)).shape == (12, 16, 3)
        except ImageError as error:
            assert error.reason == "encoding"


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["jpeg", "png", "tiff", "webp"])
def test_a_picture_is_upright_as_pillow_says(suffix, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    file = io.BytesIO()
    Image.fromarray(cv2.resize(BGR, (40, 24))).save(file, suffix, exif=exif)
    truth = np.asarray(ImageOps.exif_transpose(Image.open(file)).convert("RGB"))
    assert np.array_equal(compressed_to_rgb(suffix, file.getvalue()), truth)
    assert np.array_equal(decode_picture(file.getvalue()), truth)
