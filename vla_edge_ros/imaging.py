# SPDX-License-Identifier: Apache-2.0
"""Any camera's image message to RGB pixels of the model's size.

``to_rgb`` takes the fields of ``sensor_msgs/Image`` (not the message, so that no ROS is needed) and undoes
what varies between drivers: row padding, byte order, aliases of one layout. OpenCV then converts the colours.

Conventions where the encoding's name leaves room: 8UCn and 16UCn have OpenCV's channel order (mono, grey
with a second channel that is ignored, BGR, BGRA); YUV is BT.601 of limited range; alpha is dropped; 16-bit
samples are scaled by 1/257, so that full scale stays full scale.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.errors import ImageError


@dataclass(frozen=True, slots=True)
class Layout:
    """How an encoding lays a picture out, and how its samples become RGB.

    ``convert`` takes ``[rows, width]`` or ``[rows, width, channels]`` samples without padding; ``rows`` is
    ``height * planes``, as the planes of an NV format follow each other with the same ``step``.
    ``multiple_x``, ``multiple_y``: chroma is shared by that many pixels, so the size must be divisible.
    """

    channels: int
    bits: int
    convert: Callable[[NDArray[Any]], NDArray[Any]]
    planes: float = 1.0
    multiple_x: int = 1
    multiple_y: int = 1
    smallest: int = 1


def _cvt(code: int) -> Callable[[NDArray[Any]], NDArray[Any]]:
    return lambda samples: cv2.cvtColor(samples, code)


def _keep(samples: NDArray[Any]) -> NDArray[Any]:
    return samples


def _first_channel(samples: NDArray[Any]) -> NDArray[Any]:
    return cv2.cvtColor(np.ascontiguousarray(samples[..., 0]), cv2.COLOR_GRAY2RGB)


def _nv24(samples: NDArray[Any]) -> NDArray[Any]:
    """A full-resolution luma plane, then one of interleaved U, V at full resolution.

    OpenCV has no 4:4:4 conversion of limited range. Doubling each pixel makes this a 4:2:2 picture, whose
    every second column is the answer, by the same arithmetic as the other YUV encodings.
    """
    height, width = samples.shape[0] // 3, samples.shape[1]
    chroma = samples[height:].reshape(height, width, 2)
    doubled = np.empty((height, width, 4), np.uint8)  # U Y V Y
    doubled[..., 0], doubled[..., 2] = chroma[..., 0], chroma[..., 1]
    doubled[..., 1] = doubled[..., 3] = samples[:height]
    return cv2.cvtColor(doubled.reshape(height, 2 * width, 2), cv2.COLOR_YUV2RGB_UYVY)[:, ::2]


_GRAY = _cvt(cv2.COLOR_GRAY2RGB)
_BGR = _cvt(cv2.COLOR_BGR2RGB)
_BGRA = _cvt(cv2.COLOR_BGRA2RGB)
_RGBA = _cvt(cv2.COLOR_RGBA2RGB)
_UYVY = Layout(2, 8, _cvt(cv2.COLOR_YUV2RGB_UYVY), multiple_x=2)
_YUYV = Layout(2, 8, _cvt(cv2.COLOR_YUV2RGB_YUY2), multiple_x=2)

_INTERLEAVED = {
    "rgb": (3, _keep),
    "bgr": (3, _BGR),
    "rgba": (4, _RGBA),
    "bgra": (4, _BGRA),
    "mono": (1, _GRAY),
}
_CHANNELS = {1: _GRAY, 2: _first_channel, 3: _BGR, 4: _BGRA}
# OpenCV names a mosaic by the second and third pixel of its second row, ROS by the corner's four pixels.
_MOSAIC = {
    "rggb": cv2.COLOR_BayerBG2RGB,
    "bggr": cv2.COLOR_BayerRG2RGB,
    "gbrg": cv2.COLOR_BayerGR2RGB,
    "grbg": cv2.COLOR_BayerGB2RGB,
}

LAYOUTS: dict[str, Layout] = {
    **{f"{name}{bits}": Layout(n, bits, to) for name, (n, to) in _INTERLEAVED.items() for bits in (8, 16)},
    **{f"{bits}UC{n}": Layout(n, bits, to) for n, to in _CHANNELS.items() for bits in (8, 16)},
    # Demosaicing needs each colour's neighbours on both sides.
    **{
        f"bayer_{name}{bits}": Layout(1, bits, _cvt(code), smallest=3)
        for name, code in _MOSAIC.items()
        for bits in (8, 16)
    },
    "uyvy": _UYVY,
    "yuv422": _UYVY,
    "yuyv": _YUYV,
    "yuv422_yuy2": _YUYV,
    "nv12": Layout(1, 8, _cvt(cv2.COLOR_YUV2RGB_NV12), planes=1.5, multiple_x=2, multiple_y=2),
    "nv21": Layout(1, 8, _cvt(cv2.COLOR_YUV2RGB_NV21), planes=1.5, multiple_x=2, multiple_y=2),
    "nv24": Layout(1, 8, _nv24, planes=3.0),
}


def message_to_rgb(message: Any) -> NDArray[np.uint8]:
    """``to_rgb`` of anything that has the fields of ``sensor_msgs/Image``: rclpy's class, a bag reader's."""
    return to_rgb(
        message.height,
        message.width,
        message.encoding,
        bool(message.is_bigendian),
        message.step,
        message.data,
    )


def to_rgb(
    height: int, width: int, encoding: str, is_bigendian: bool, step: int, data: Any
) -> NDArray[np.uint8]:
    """The picture of an image message as uint8 ``[height, width, 3]`` RGB, C-contiguous.

    The arguments are the message's fields; ``data`` is any bytes-like object; ``step`` 0 means rows without
    padding; bytes after the last row are ignored. The result may be a read-only view of ``data``.
    Raises ``ImageError`` with reason ``encoding``, ``size``, ``step`` or ``data``.
    """
    layout = LAYOUTS.get(encoding)
    if layout is None:
        raise ImageError("encoding", f"encoding must be one of {', '.join(LAYOUTS)}, got {encoding[:80]!r}")
    _check_size(height, width, encoding, layout)
    row_bytes = width * layout.channels * layout.bits // 8
    if step and step < row_bytes:
        raise ImageError(
            "step", f"step must be at least {row_bytes} for {width} pixels of {encoding}, got {step}"
        )
    step = step or row_bytes
    rows = int(height * layout.planes)
    samples = np.frombuffer(data, np.uint8) if len(data) else np.empty(0, np.uint8)
    if samples.size < rows * step:
        raise ImageError(
            "data",
            f"data must hold {rows * step} bytes ({rows} rows of step {step}) "
            f"for {width}x{height} {encoding}, got {samples.size}",
        )
    samples = _without_padding(samples, rows, width, step, row_bytes, layout)
    if layout.bits == 16:
        samples = np.require(samples.view(">u2" if is_bigendian else "<u2"), np.uint16, ("C", "A"))
    if layout.channels > 1:
        samples = samples.reshape(rows, width, layout.channels)
    pixels = layout.convert(samples)
    if layout.bits == 16:
        pixels = cv2.convertScaleAbs(pixels, alpha=1 / 257)
    return np.ascontiguousarray(pixels)


def _check_size(height: int, width: int, encoding: str, layout: Layout) -> None:
    if height < layout.smallest or width < layout.smallest:
        raise ImageError(
            "size",
            f"{encoding} must be at least {layout.smallest}x{layout.smallest} pixels, got {width}x{height}",
        )
    if width % layout.multiple_x or height % layout.multiple_y:
        raise ImageError(
            "size",
            f"{encoding} shares chroma between pixels, so its size must be a multiple of "
            f"{layout.multiple_x}x{layout.multiple_y}, got {width}x{height}",
        )


def _without_padding(
    samples: NDArray[np.uint8], rows: int, width: int, step: int, row_bytes: int, layout: Layout
) -> NDArray[np.uint8]:
    """Bytes ``[rows, row_bytes]``; a view where the rows' own stride can express the padding."""
    samples = samples[: rows * step]
    if layout.planes != 3.0:
        return samples.reshape(rows, step)[:, :row_bytes]
    # NV24's chroma rows are twice as long as its luma rows, and so is their step.
    luma_rows = rows // 3
    luma = samples[: luma_rows * step].reshape(luma_rows, step)[:, :width]
    chroma = samples[luma_rows * step :].reshape(luma_rows, 2 * step)[:, : 2 * width]
    return np.concatenate([luma, chroma.reshape(2 * luma_rows, width)])


def resize_rgb(pixels: NDArray[np.uint8], width: int, height: int) -> NDArray[np.uint8]:
    """``pixels`` ``[h, w, 3]`` stretched to uint8 ``[height, width, 3]``.

    An axis that shrinks is averaged over area (every camera pixel counts, no aliasing), one that grows is
    interpolated; each axis on its own, as OpenCV's area filter gives up averaging when either axis grows.
    """
    # OpenCV halves in integers, far faster than its area filter of any other ratio: 1.7 against 7.2 ms for
    # 1920x1080 to 128x64. What the last step averages is still at least twice as fine as the result.
    resized: NDArray[Any] = pixels
    while _can_be_halved(resized, width, height):
        half = (resized.shape[1] // 2, resized.shape[0] // 2)
        resized = cv2.resize(resized, half, interpolation=cv2.INTER_AREA)
    shrunk = (min(width, resized.shape[1]), min(height, resized.shape[0]))
    if (resized.shape[1], resized.shape[0]) != shrunk:
        resized = cv2.resize(resized, shrunk, interpolation=cv2.INTER_AREA)
    if shrunk != (width, height):
        resized = cv2.resize(resized, (width, height), interpolation=cv2.INTER_LINEAR)
    return resized


def _can_be_halved(pixels: NDArray[Any], width: int, height: int) -> bool:
    is_even = pixels.shape[0] % 2 == 0 and pixels.shape[1] % 2 == 0
    return is_even and pixels.shape[1] >= 4 * width and pixels.shape[0] >= 4 * height
