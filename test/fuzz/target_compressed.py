# SPDX-License-Identifier: Apache-2.0
"""Compressed image messages: a picture that OpenCV decodes alike, or an ``ImageError``.

An input is the message's ``format``, a line end, and its data.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import cv2
import numpy as np
from byte_mutator import mutate
from sensor_msgs.msg import CompressedImage
from target_footage import bases as footage
from target_footage import is_still
from target_images import NOW_NS, Slot
from worker import refusal

from vla_edge_ros.compressed_image import compressed_to_rgb
from vla_edge_ros.config import FrameConfig
from vla_edge_ros.errors import ImageError
from vla_edge_ros.ros.frame_input import FrameInput
from vla_edge_ros.ros.stamps import StampRules

AS_STORED = (
    "jpeg",
    "png",
    "jpg",
    "",
    "rgb8; jpeg compressed bgr8",
    "bgr8; png compressed bgr8",
    "mono8; png compressed",
)
EXCHANGED = ("rgb8; jpeg compressed rgb8", "rgb8; png compressed rgb8")
OTHERS = (
    "bayer_rggb8; png compressed bayer_rggb8",
    "bayer_gbrg16; png compressed bayer_gbrg16",
    "yuv422; jpeg compressed yuv422",
    "16UC1; compressedDepth png",
    "32FC1; compressedDepth rvl",
    "h264",
    "bayer_; png compressed bayer_",
    "rgb8; jpeg compressed rgb8; " * 50,
    ";;;",
    "compressed",
    "\u00e9; \u0000 compressed",
)
JPEG_LEVELS = 3.0  # on average: decoders differ in how they interpolate colour


def make(random: Random) -> bytes:
    format = random.choice((*AS_STORED, *AS_STORED, *EXCHANGED, *OTHERS))
    name = random.choice([name for name in sorted(footage()) if is_still(name)])
    data = footage()[name]
    if random.random() < 0.8:
        data = data[: random.randrange(len(data))] if random.random() < 0.2 else mutate(data, random)
    if random.random() < 0.1:
        format = mutate(format.encode(), random).decode("utf-8", "replace")
    return format.replace("\n", " ").encode() + b"\n" + data


def check(data: bytes, folder: Path) -> str:
    line, separator, contents = data.partition(b"\n")
    if not separator:
        return "no input"
    format = line.decode("utf-8", "replace")
    is_written = _is_written_to_the_slot(format, contents)
    try:
        pixels = compressed_to_rgb(format, memoryview(contents))
    except ImageError as error:
        assert error.reason in ("encoding", "size", "data"), error.reason
        assert not is_written, "the node takes what is refused"
        return refusal(error)
    assert is_written, "the node refuses what is taken"
    assert pixels.dtype == np.uint8 and pixels.ndim == 3 and pixels.shape[2] == 3 and pixels.size
    assert pixels.flags.c_contiguous, "not contiguous"
    if format in AS_STORED or format in EXCHANGED:
        _compare(pixels[..., ::-1] if format in EXCHANGED else pixels, contents)
    return "good"


def _is_written_to_the_slot(format: str, contents: bytes) -> bool:
    slot, warnings = Slot(), list[str]()
    frame_input = FrameInput(slot, FrameConfig(), StampRules(50.0), lambda: NOW_NS, warnings.append)
    frame_input.receive_compressed(CompressedImage(format=format, data=contents), {})
    assert (slot.pixels is None) == bool(warnings) and all(len(text.splitlines()) == 1 for text in warnings)
    return slot.pixels is not None


def _compare(pixels: np.ndarray, contents: bytes) -> None:
    """PNG to the bit and JPEG nearly, where both decoders take the file; not 16 bits, not alpha."""
    is_png, is_jpeg = contents.startswith(b"\x89PNG"), contents.startswith(b"\xff\xd8\xff")
    if not is_png and not is_jpeg:
        return
    if b"Exif" in contents and contents not in footage().values():
        return  # libraries differ in how much damage they forgive this block, which turns the picture
    unchanged = cv2.imdecode(
        np.frombuffer(contents, np.uint8), cv2.IMREAD_UNCHANGED | cv2.IMREAD_IGNORE_ORIENTATION
    )
    if unchanged is None or unchanged.dtype != np.uint8 or unchanged.ndim != 3 or unchanged.shape[2] != 3:
        return
    reference = cv2.cvtColor(
        cv2.imdecode(np.frombuffer(contents, np.uint8), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB
    )
    assert pixels.shape == reference.shape, (pixels.shape, reference.shape)
    levels = float(np.abs(pixels.astype(int) - reference).mean())
    assert levels <= (0.0 if is_png else JPEG_LEVELS), f"{levels:.2f} levels from OpenCV's"
