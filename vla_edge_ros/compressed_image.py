# SPDX-License-Identifier: Apache-2.0
"""Encoded pictures (JPEG, PNG, ...) to RGB pixels: ``sensor_msgs/CompressedImage``, and picture files.

An image callback, or a bag reader, needs one call for any message of that type::

    pixels = compressed_to_rgb(message.format, message.data)  # uint8 [height, width, 3]; or ImageError

It needs no ROS. It is as safe as ``imaging.message_to_rgb``: whatever the bytes are, it answers with a
picture or with an ``ImageError`` whose ``reason`` can be counted, and a header that promises a huge picture
is refused before anything of that size is allocated.

Pillow, not OpenCV: OpenCV fills up a JPEG that was cut short with grey and says nothing.
"""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, TiffImagePlugin, UnidentifiedImageError

from vla_edge_ros.errors import ImageError
from vla_edge_ros.imaging import LAYOUTS, to_rgb
from vla_edge_ros.orientation import UPRIGHT, set_upright

MOST_PIXELS = 2**26  # 8192 x 8192: more than any camera's still, 200 MB as RGB

# What cameras and image_transport send. Pillow reads more, some of it by running other programs.
Image.init()
STILL_FORMATS = tuple(
    name
    for name in ("JPEG", "PNG", "TIFF", "WEBP", "BMP", "PPM", "JPEG2000", "QOI", "AVIF")
    if name in Image.OPEN  # not every release of Pillow has the last two
)
_EXIF_ORIENTATION = 0x0112
_WHITE_IS_ZERO = 0
# Video is not one picture a message; Pillow would only say that it knows no such format.
_VIDEO = re.compile(r"h\.?26[45]|hevc|avc|av1|vp[89]|mpeg")


def compressed_to_rgb(format: str, data: Any, most_pixels: int = MOST_PIXELS) -> NDArray[np.uint8]:
    """The picture of a ``sensor_msgs/CompressedImage`` as uint8 ``[height, width, 3]`` RGB, C-contiguous,
    perhaps read-only.

    ``format``, ``data``: the message's fields; ``data`` is any bytes-like object. ``format`` is ``jpeg``, or
    as image_transport writes it ``bayer_rggb8; png compressed bayer_rggb8``: the encoding of the camera, the
    codec, the encoding that was stored. The codec is found out from the bytes. A stored mosaic is
    demosaiced; a picture stored with red and blue exchanged (``compressed rgb8``) is read as it was meant.

    Raises ``ImageError`` with reason ``encoding`` (depth, video, float samples: no picture), ``size`` (more
    than ``most_pixels``) or ``data``.
    """
    source, _, rest = (part.strip() for part in format.partition(";"))
    stored = rest.partition("compressed")[2].strip()
    shown = repr(format[:80])
    if "compressedDepth" in format or source.startswith(("32FC", "64FC", "32SC")):
        raise ImageError("encoding", f"format must name a picture (jpeg, png, ...), got depth ({shown})")
    if _VIDEO.fullmatch(format.strip().lower()):
        raise ImageError("encoding", f"format must name still pictures (jpeg, png, ...), got video ({shown})")
    try:
        image, samples = _decode(data, most_pixels, STILL_FORMATS)
    except ImageError as error:
        raise ImageError(error.reason, f"{error} (format {shown})") from None
    if samples.ndim == 2:
        samples = _one_channel_as(stored or source, samples, shown)
    elif stored.startswith("rgb"):
        # image_transport hands OpenCV's encoder, which takes BGR, whatever it says here.
        samples = samples[..., ::-1]
    return set_upright(_three_channels(samples), _orientation(image))


def decode_picture(data: Any, most_pixels: int = MOST_PIXELS) -> NDArray[np.uint8]:
    """The picture in ``data`` as uint8 ``[height, width, 3]`` RGB, upright as its EXIF tag says.

    Alpha is dropped; 10 to 16-bit grey keeps full scale full. Pictures of float or 32-bit samples are
    refused: nothing in them says which value is white. Raises ``ImageError`` with reason ``encoding``
    (those), ``size`` or ``data``.
    """
    image, samples = _decode(data, most_pixels, None)
    return set_upright(_three_channels(samples), _orientation(image))


def _decode(
    data: Any, most_pixels: int, formats: tuple[str, ...] | None
) -> tuple[Image.Image, NDArray[np.uint8] | NDArray[np.uint16]]:
    """Grey ``[height, width]`` of 8 bits or of 16 with full scale 65535, or uint8 RGB; not yet upright."""
    try:
        image = Image.open(io.BytesIO(data), formats=formats)
        width, height = image.size
        if width * height > most_pixels:
            raise ImageError("size", f"picture must have at most {most_pixels} pixels, got {width}x{height}")
        image.load()
        if image.mode == "F" or image.mode.startswith("I"):
            return image, _deep_grey(image)
        if image.mode in ("L", "1"):
            return image, np.asarray(image.convert("L"))
        return image, np.asarray(image if image.mode == "RGB" else image.convert("RGB"))
    except ImageError:
        raise
    except UnidentifiedImageError:
        raise ImageError("data", "not a picture in a known format of 8 or 16 bits a sample") from None
    except (Image.DecompressionBombError, MemoryError) as error:
        raise ImageError("size", f"picture is too large: {error}") from None
    except Exception as error:  # Pillow's decoders raise whatever broken bytes lead them to
        raise ImageError("data", f"picture cannot be decoded: {error or type(error).__name__}") from None


def _deep_grey(image: Image.Image) -> NDArray[np.uint16]:
    """Grey of more than 8 bits, its full scale made 65535."""
    if image.mode == "F":
        raise ImageError("encoding", "picture must have 8 or 16-bit samples, got floating-point ones")
    # Pillow's "I" is 32 bits, also where a PNG or PGM of 16 bits is kept in it.
    if image.mode == "I" and image.format not in ("PNG", "PPM", "JPEG2000"):
        raise ImageError("encoding", "picture must have 8 or 16-bit samples, got 32-bit or signed ones")
    samples = np.asarray(image)
    if not isinstance(image, TiffImagePlugin.TiffImageFile):
        return np.clip(samples, 0, 65535).astype(np.uint16)
    (bits,) = image.tag_v2.get(TiffImagePlugin.BITSPERSAMPLE, (16,))
    full_scale = (1 << bits) - 1
    grey = np.minimum(samples.astype(np.uint32), full_scale)
    if image.tag_v2.get(TiffImagePlugin.PHOTOMETRIC_INTERPRETATION) == _WHITE_IS_ZERO:
        grey = full_scale - grey
    return ((grey * 65535 + full_scale // 2) // full_scale).astype(np.uint16)


def _one_channel_as(encoding: str, samples: NDArray[Any], shown: str) -> NDArray[Any]:
    """One stored channel as what ``encoding`` means by it: grey, or a mosaic of colours."""
    if encoding.startswith(("yuv", "yuyv", "uyvy", "nv")):
        raise ImageError("encoding", f"format must name a picture, got planes of {encoding} ({shown})")
    if "bayer" not in encoding.lower():
        return samples
    if encoding not in LAYOUTS:
        raise ImageError("encoding", f"format must name a mosaic such as bayer_rggb8, got {shown}")
    height, width = samples.shape
    name = f"{encoding.rstrip('0123456789')}{samples.itemsize * 8}"  # a JPEG of a 16-bit mosaic has 8 bits
    little = np.ascontiguousarray(samples).astype(samples.dtype.newbyteorder("<"), copy=False)
    return to_rgb(height, width, name, False, 0, little.tobytes())


def _three_channels(samples: NDArray[Any]) -> NDArray[np.uint8]:
    if samples.dtype == np.uint16:
        samples = np.rint(samples / 257).astype(np.uint8)
    return samples if samples.ndim == 3 else np.repeat(samples[..., None], 3, axis=2)


def _orientation(image: Image.Image) -> int:
    """After loading, since Pillow sets a TIFF upright itself and then takes its tag away."""
    try:
        orientation = image.getexif().get(_EXIF_ORIENTATION, UPRIGHT)
    except Exception:  # a broken EXIF block takes nothing from the picture; parsers raise whatever they like
        return UPRIGHT
    return orientation if isinstance(orientation, int) else UPRIGHT
