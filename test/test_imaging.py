# SPDX-License-Identifier: Apache-2.0
"""``imaging`` against colour formulas written here in float64, for each encoding, padding and byte order."""

import array

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vla_edge_ros.errors import ImageError
from vla_edge_ros.imaging import LAYOUTS, resize_rgb, to_rgb

WIDTH, HEIGHT = 10, 6
CHANNEL_ORDER = {  # index of R, G, B among the channels
    "rgb": (0, 1, 2),
    "bgr": (2, 1, 0),
    "rgba": (0, 1, 2),
    "bgra": (2, 1, 0),
    "mono": (0, 0, 0),
    "UC1": (0, 0, 0),
    "UC2": (0, 0, 0),
    "UC3": (2, 1, 0),
    "UC4": (2, 1, 0),
}
INTERLEAVED = [
    *(f"{name}{bits}" for name in ("rgb", "bgr", "rgba", "bgra", "mono") for bits in (8, 16)),
    *(f"{bits}UC{n}" for n in (1, 2, 3, 4) for bits in (8, 16)),
]
MOSAICS = [f"bayer_{name}{bits}" for name in ("rggb", "bggr", "gbrg", "grbg") for bits in (8, 16)]
YUV = ["uyvy", "yuv422", "yuyv", "yuv422_yuy2", "nv12", "nv21", "nv24"]
# From the list in sensor_msgs/image_encodings.hpp: signed, 32- and 64-bit types hold depth or vectors.
NO_PICTURE = [f"{kind}C{n}" for kind in ("8S", "16S", "32S", "32F", "64F") for n in (1, 2, 3, 4)]
UNKNOWN = ["", "BGR8", "rgb", "bayerrg8", "bayer_rggb", "8UC5", "yuv422p", "mono8; png compressed", "rgb8 "]


def padded(rows: np.ndarray, padding: int, fill: int = 0xFF) -> tuple[int, bytes]:
    """Rows of bytes with ``padding`` bytes of ``fill`` behind each, and the step."""
    tail = np.full((rows.shape[0], padding), fill, np.uint8)
    return rows.shape[1] + padding, np.hstack([rows, tail]).tobytes()


def bytes_of(samples: np.ndarray, big_endian: bool) -> np.ndarray:
    """``[rows, n]`` samples as ``[rows, bytes]`` in the byte order asked for."""
    wide = samples.astype(samples.dtype.newbyteorder(">" if big_endian else "<"))
    return wide.view(np.uint8).reshape(samples.shape[0], -1)


def random_samples(encoding: str, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(len(encoding) * 1000 + sum(encoding.encode()))
    dtype = np.uint16 if LAYOUTS[encoding].bits == 16 else np.uint8
    return rng.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def to_eight_bits(samples: np.ndarray) -> np.ndarray:
    return samples.astype(np.float64) / 257 if samples.dtype == np.uint16 else samples.astype(np.float64)


def rgb_of_yuv(luma: np.ndarray, cb: np.ndarray, cr: np.ndarray) -> np.ndarray:
    """BT.601 from its definition: kr 0.299, kb 0.114, luma 16..235, chroma 16..240 around 128.

    Luma below 16 does not occur in a legal signal; OpenCV takes it for black, whatever the chroma.
    """
    kr, kb = 0.299, 0.114
    y = np.maximum(luma.astype(np.float64) - 16, 0) / 219
    pb = (cb.astype(np.float64) - 128) / 224
    pr = (cr.astype(np.float64) - 128) / 224
    red = y + 2 * (1 - kr) * pr
    blue = y + 2 * (1 - kb) * pb
    green = (y - kr * red - kb * blue) / (1 - kr - kb)
    return np.clip(np.stack([red, green, blue], -1) * 255, 0, 255)


def mosaic_interior(samples: np.ndarray, pattern: str) -> np.ndarray:
    """Bilinear demosaicing of all but the border: each colour is the mean of its nearest samples."""
    height, width = samples.shape
    out = np.empty((height - 2, width - 2, 3))
    sites = [[pattern[0], pattern[1]], [pattern[2], pattern[3]]]
    for row in range(1, height - 1):
        for column in range(1, width - 1):
            for channel, colour in enumerate("rgb"):
                near = [
                    (abs(dy) + abs(dx), float(samples[row + dy, column + dx]))
                    for dy in (-1, 0, 1)
                    for dx in (-1, 0, 1)
                    if sites[(row + dy) % 2][(column + dx) % 2] == colour
                ]
                closest = min(distance for distance, _ in near)
                values = [value for distance, value in near if distance == closest]
                out[row - 1, column - 1, channel] = np.mean(values)
    return out


@pytest.mark.parametrize("big_endian", [False, True])
@pytest.mark.parametrize("padding", [0, 1, 6, 64])
@pytest.mark.parametrize("encoding", INTERLEAVED)
def test_interleaved_encodings_equal_the_reference(encoding, padding, big_endian):
    layout = LAYOUTS[encoding]
    samples = random_samples(encoding, HEIGHT, WIDTH, layout.channels)
    step, data = padded(bytes_of(samples.reshape(HEIGHT, -1), big_endian), padding)
    order = CHANNEL_ORDER[encoding.strip("0123456789") if "UC" not in encoding else encoding[-3:]]
    expected = np.rint(to_eight_bits(samples)[..., list(order)])
    pixels = to_rgb(HEIGHT, WIDTH, encoding, big_endian, step, data)
    assert pixels.dtype == np.uint8 and pixels.flags.c_contiguous
    np.testing.assert_array_equal(pixels, expected)


@pytest.mark.parametrize("big_endian", [False, True])
@pytest.mark.parametrize("padding", [0, 1, 6, 64])
@pytest.mark.parametrize("encoding", MOSAICS)
def test_mosaics_equal_the_reference_inside_the_border(encoding, padding, big_endian):
    samples = random_samples(encoding, HEIGHT, WIDTH)
    step, data = padded(bytes_of(samples, big_endian), padding)
    pixels = to_rgb(HEIGHT, WIDTH, encoding, big_endian, step, data)
    scale = 257 if samples.dtype == np.uint16 else 1
    expected = mosaic_interior(samples, encoding[6:10]) / scale
    # Integer averages may round up where the reference keeps a fraction.
    assert np.abs(pixels[1:-1, 1:-1] - expected).max() <= 1.0
    np.testing.assert_array_equal(pixels[0, 1:-1], pixels[1, 1:-1])  # the border repeats its neighbours


def planes_of(encoding: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[np.ndarray]]:
    """Full-size Y, Cb, Cr and the rows of the planes that carry them, for a random picture."""
    rng = np.random.default_rng(7)
    luma = rng.integers(0, 256, (HEIGHT, WIDTH), np.uint8)
    share_x, share_y = {"nv12": (2, 2), "nv21": (2, 2), "nv24": (1, 1)}.get(encoding, (2, 1))
    cb, cr = (rng.integers(0, 256, (HEIGHT // share_y, WIDTH // share_x), np.uint8) for _ in range(2))
    wide_cb, wide_cr = (c.repeat(share_y, 0).repeat(share_x, 1) for c in (cb, cr))
    if encoding.startswith("nv"):
        pair = (cr, cb) if encoding == "nv21" else (cb, cr)
        return luma, wide_cb, wide_cr, [luma, np.stack(pair, -1).reshape(cb.shape[0], -1)]
    first, second = luma[:, 0::2], luma[:, 1::2]
    order = [cb, first, cr, second] if encoding in ("uyvy", "yuv422") else [first, cb, second, cr]
    return luma, wide_cb, wide_cr, [np.stack(order, -1).reshape(HEIGHT, -1)]


@pytest.mark.parametrize("padding", [0, 1, 6, 64])
@pytest.mark.parametrize("encoding", YUV)
def test_yuv_encodings_equal_the_reference(encoding, padding):
    luma, cb, cr, planes = planes_of(encoding)
    step, data = padded(planes[0], padding)
    for plane in planes[1:]:
        # An nv24 chroma row is two luma rows long and carries the padding of both.
        data += padded(plane, padding * (plane.shape[1] // WIDTH))[1]
    pixels = to_rgb(HEIGHT, WIDTH, encoding, False, step, data)
    assert pixels.flags.c_contiguous
    assert np.abs(pixels - rgb_of_yuv(luma, cb, cr)).max() <= 1.0  # OpenCV computes in fixed point


def test_every_layout_has_a_reference():
    assert set(LAYOUTS) == {*INTERLEAVED, *MOSAICS, *YUV}


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda b: array.array("B", b)])
def test_data_of_each_buffer_type_is_taken(kind):
    data = bytes(range(12))
    np.testing.assert_array_equal(
        to_rgb(2, 2, "rgb8", False, 6, kind(data)), np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    )


def test_unaligned_sixteen_bit_rows_are_read():
    step, data = padded(bytes_of(np.array([[256, 65535], [0, 257]], np.uint16), True), 1)
    assert to_rgb(2, 2, "mono16", True, step, memoryview(b"x" + data)[1:])[..., 0].tolist() == [
        [1, 255],
        [0, 1],
    ]


def test_step_zero_means_rows_without_padding():
    data = bytes(range(18))
    np.testing.assert_array_equal(to_rgb(2, 3, "rgb8", False, 0, data), to_rgb(2, 3, "rgb8", False, 9, data))


def test_bytes_behind_the_last_row_are_ignored():
    data = bytes(range(12))
    np.testing.assert_array_equal(
        to_rgb(2, 2, "rgb8", False, 6, data + b"page"), to_rgb(2, 2, "rgb8", False, 6, data)
    )


@pytest.mark.parametrize("encoding", NO_PICTURE + UNKNOWN)
def test_encoding_without_a_picture_is_refused(encoding):
    with pytest.raises(ImageError, match="encoding must") as refusal:
        to_rgb(2, 2, encoding, False, 0, bytes(256))
    assert refusal.value.reason == "encoding" and repr(encoding) in str(refusal.value)


@pytest.mark.parametrize(
    ("height", "width", "encoding", "step", "length", "reason"),
    [
        (0, 0, "rgb8", 0, 0, "size"),
        (0, 4, "rgb8", 12, 48, "size"),
        (4, 0, "rgb8", 0, 48, "size"),
        (2, 2, "bayer_rggb8", 2, 4, "size"),
        (2, 3, "uyvy", 6, 12, "size"),
        (3, 2, "nv12", 2, 9, "size"),
        (4, 4, "rgb8", 11, 48, "step"),
        (4, 4, "mono16", 7, 32, "step"),
        (4, 4, "rgb8", 12, 47, "data"),
        (4, 4, "rgb8", 16, 63, "data"),
        (4, 4, "nv12", 4, 23, "data"),
        (4, 4, "nv24", 4, 47, "data"),
        (4, 4, "rgb8", 0, 0, "data"),
        (4, 4294967295, "rgb8", 0, 48, "data"),
        (4294967295, 4, "rgb8", 12, 48, "data"),
        (4, 4294967295, "rgb8", 12, 48, "step"),
        (4, 4, "rgb8", 4294967295, 48, "data"),
    ],
)
def test_malformed_message_is_refused_by_reason(height, width, encoding, step, length, reason):
    with pytest.raises(ImageError) as refusal:
        to_rgb(height, width, encoding, False, step, bytes(length))
    assert refusal.value.reason == reason
    assert "got" in str(refusal.value)


@given(
    height=st.integers(0, 9) | st.just(2**32 - 1),
    width=st.integers(0, 9) | st.just(2**32 - 1),
    encoding=st.sampled_from(sorted(LAYOUTS)) | st.sampled_from(NO_PICTURE + UNKNOWN),
    big_endian=st.booleans(),
    step=st.integers(0, 80) | st.just(2**32 - 1),
    data=st.binary(max_size=900),
)
def test_any_message_gives_a_picture_of_its_size_or_an_image_error(
    height, width, encoding, big_endian, step, data
):
    try:
        pixels = to_rgb(height, width, encoding, big_endian, step, data)
    except ImageError as refusal:
        assert refusal.reason in {"encoding", "size", "step", "data"}
    else:
        assert pixels.shape == (height, width, 3) and pixels.dtype == np.uint8


def test_shrinking_averages_the_area():
    rng = np.random.default_rng(3)
    pixels = rng.integers(0, 256, (12, 20, 3), np.uint8)
    expected = pixels.reshape(4, 3, 5, 4, 3).mean(axis=(1, 3))
    assert np.abs(resize_rgb(pixels, 5, 4) - expected).max() <= 0.5 + 1e-6


@pytest.mark.parametrize(("new_height", "new_width"), [(64, 128), (60, 80), (68, 100), (540, 960)])
def test_shrinking_a_large_picture_is_close_to_the_exact_area_average(new_height, new_width):
    """Halving first moves an average's edges by less than a quarter of its width: little on real content."""
    y, x = np.mgrid[0:1080, 0:1920].astype(np.float64)
    waves = [127.5 + 127.5 * np.sin(x / 37 + channel) * np.cos(y / 23) for channel in range(3)]
    pixels = np.rint(np.stack(waves, -1)).astype(np.uint8)
    expected = area_weights(1080, new_height) @ pixels.reshape(1080, -1).astype(np.float64)
    expected = np.einsum("ow,hwc->hoc", area_weights(1920, new_width), expected.reshape(new_height, 1920, 3))
    assert np.abs(resize_rgb(pixels, new_width, new_height) - expected).max() <= 3.0


def area_weights(size: int, new_size: int) -> np.ndarray:
    """Row ``i`` holds how much of each old pixel lies in new pixel ``i``; rows sum to 1."""
    edges = np.linspace(0, size, new_size + 1)
    cells = np.arange(size)
    overlap = np.minimum(edges[1:, None], cells + 1) - np.maximum(edges[:-1, None], cells)
    return np.clip(overlap, 0, None) * new_size / size


def test_shrinking_one_axis_averages_while_the_other_grows():
    stripes = np.zeros((4, 64, 3), np.uint8)
    stripes[:, ::2] = 200  # finer than the result can show: only an average is right
    resized = resize_rgb(stripes, 8, 16)
    assert resized.shape == (16, 8, 3)
    assert (resized == 100).all()


@given(
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    new_height=st.integers(1, 40),
    new_width=st.integers(1, 40),
)
def test_resizing_keeps_a_flat_picture_flat(height, width, new_height, new_width):
    flat = np.full((height, width, 3), (17, 101, 250), np.uint8)
    resized = resize_rgb(flat, new_width, new_height)
    assert resized.shape == (new_height, new_width, 3) and resized.dtype == np.uint8
    assert (resized == (17, 101, 250)).all()


def test_same_size_is_passed_through():
    pixels = np.zeros((4, 6, 3), np.uint8)
    assert resize_rgb(pixels, 6, 4) is pixels
