# SPDX-License-Identifier: Apache-2.0
"""Image messages: ``FrameInput`` writes the picture that OpenCV and NumPy make, row by row, or nothing.

An input is a line of JSON, the message's fields, and then its data.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import cv2
import numpy as np
from byte_mutator import mutate
from sensor_msgs.msg import Image

from vla_edge_ros.config import FrameConfig
from vla_edge_ros.imaging import LAYOUTS, message_to_rgb
from vla_edge_ros.ros.frame_input import FrameInput
from vla_edge_ros.ros.stamps import StampRules

NOW_NS = 1_700_000_000_000_000_000
STRANGERS = (
    "32FC1",
    "16UC5",
    "8SC3",
    "jpeg",
    "RGB8",
    "rgb8; jpeg compressed bgr8",
    "64FC3",
    "rgb",
    "",
    "nv99",
)
FIELDS = {
    "height": (0, 2**32 - 1),
    "width": (0, 2**32 - 1),
    "step": (0, 2**32 - 1),
    "is_bigendian": (0, 255),
    "sec": (-(2**31), 2**31 - 1),
    "nanosec": (0, 2**32 - 1),
    "number": (0, 2**64 - 1),
}
INTERLEAVED = {  # channels, and where red, green and blue are
    "rgb": (3, (0, 1, 2)),
    "bgr": (3, (2, 1, 0)),
    "rgba": (4, (0, 1, 2)),
    "bgra": (4, (2, 1, 0)),
    "mono": (1, (0, 0, 0)),
    "UC1": (1, (0, 0, 0)),
    "UC2": (2, (0, 0, 0)),
    "UC3": (3, (2, 1, 0)),
    "UC4": (4, (2, 1, 0)),
}
BY_OPENCV = {
    "bayer_rggb": cv2.COLOR_BayerBG2RGB,
    "bayer_bggr": cv2.COLOR_BayerRG2RGB,
    "bayer_gbrg": cv2.COLOR_BayerGR2RGB,
    "bayer_grbg": cv2.COLOR_BayerGB2RGB,
    "uyvy": cv2.COLOR_YUV2RGB_UYVY,
    "yuv422": cv2.COLOR_YUV2RGB_UYVY,
    "yuyv": cv2.COLOR_YUV2RGB_YUY2,
    "yuv422_yuy2": cv2.COLOR_YUV2RGB_YUY2,
    "nv12": cv2.COLOR_YUV2RGB_NV12,
    "nv21": cv2.COLOR_YUV2RGB_NV21,
}


def make(random: Random) -> bytes:
    encoding = random.choice((*LAYOUTS, *LAYOUTS, *STRANGERS))
    layout = LAYOUTS.get(encoding, LAYOUTS["rgb8"])
    width, height = random.choice((1, 2, 3, 5, 8, 16, 128, 131)), random.choice((1, 2, 3, 4, 9, 64, 70))
    row = width * layout.channels * layout.bits // 8
    step = row + random.choice((0, 0, 0, 1, 2, 3, 16, 64))
    fields: dict[str, Any] = {
        "height": height,
        "width": width,
        "encoding": encoding,
        "is_bigendian": random.choice((0, 0, 1, 255)),
        "step": random.choice((step, step, step, 0)),
        "sec": NOW_NS // 10**9,
        "nanosec": random.randrange(10**9),
        "number": random.randrange(1000),
    }
    data = random.randbytes(int(height * layout.planes) * (fields["step"] or row) + random.choice((0, 0, 5)))
    for name in random.sample(sorted(fields), random.choice((0, 0, 1, 1, 2))):
        fields[name] = _other(name, fields[name], random)
    if random.random() < 0.4:
        data = mutate(data, random)
    return json.dumps(fields).encode() + b"\n" + data


def _other(name: str, value: Any, random: Random) -> Any:
    if name == "encoding":
        return random.choice((*LAYOUTS, *STRANGERS, value.upper(), value + " ", value[:-1], value + "8"))
    low, high = FIELDS[name]
    number = random.choice((value - 1, value + 1, value * 2, value // 2, 0, 1, 255, 65536, 2**31, low, high))
    return min(max(number, low), high)


class Slot:
    """Keeps what is written."""

    pixels: np.ndarray | None = None

    def write(self, pixels: np.ndarray, stamp_ns: int) -> bool:
        assert 0 <= stamp_ns < 2**63
        self.pixels = pixels.copy()
        return False


def check(data: bytes, folder: Path) -> str:
    message, number = _message(data)
    if message is None:
        return "no input"
    slot, warnings = Slot(), list[str]()
    frame_input = FrameInput(slot, FrameConfig(), StampRules(50.0), lambda: NOW_NS, warnings.append)
    frame_input.receive(message, {"publication_sequence_number": number})
    assert frame_input.loss.look(0.0, publishers=1).lost == 0
    expected = _expected(message)
    if slot.pixels is None:
        assert frame_input.refused.total() == 1 and len(warnings) == 1, (frame_input.refused, warnings)
        assert expected is None, f"refused, though it is a picture: {warnings}"
        assert len(warnings[0].splitlines()) == 1, warnings
        return "refused"
    assert slot.pixels.shape == (64, 128, 3) and slot.pixels.dtype == np.uint8, slot.pixels.shape
    assert expected is not None, f"taken, though it is no whole picture: {message.width}x{message.height}"
    pixels = message_to_rgb(message)
    assert pixels.dtype == np.uint8 and pixels.flags.c_contiguous and pixels.shape == expected.shape
    furthest = int(np.abs(pixels.astype(int) - expected).max())
    assert furthest <= 1, f"{message.encoding}: {furthest} levels from the reference"
    if pixels.shape == slot.pixels.shape:
        assert np.array_equal(slot.pixels, pixels), "a frame of the model's size is changed"
    return "good"


def _message(data: bytes) -> tuple[Image | None, int]:
    """The message, none where it cannot be sent, and the publisher's number for it."""
    line, _, samples = data.partition(b"\n")
    try:
        fields = json.loads(line)
        values = {name: fields[name] for name in FIELDS}
    except (ValueError, KeyError, TypeError):
        return None, 0
    if not all(
        type(values[name]) is int and low <= values[name] <= high for name, (low, high) in FIELDS.items()
    ):
        return None, 0
    encoding = fields.get("encoding")
    if not isinstance(encoding, str) or "\0" in encoding:
        return None, 0
    message = Image(encoding=encoding, data=samples)
    message.header.stamp.sec, message.header.stamp.nanosec = values.pop("sec"), values.pop("nanosec")
    number = values.pop("number")
    for name, value in values.items():
        setattr(message, name, value)
    return message, number


def _expected(message: Any) -> np.ndarray | None:
    """The picture by the definition of ``sensor_msgs/Image``; ``None`` where the message holds none."""
    height, width, step, encoding = message.height, message.width, message.step, message.encoding
    if encoding not in LAYOUTS or not height or not width:
        return None
    base = encoding.removesuffix("16").removesuffix("8") if encoding[-1] in "68" else encoding
    base = base[2:] if base.startswith("16UC") else base[1:] if base.startswith("8UC") else base
    bits = 16 if encoding.endswith("16") or encoding.startswith("16") else 8
    channels = INTERLEAVED[base][0] if base in INTERLEAVED else 2 if base.startswith(("u", "y")) else 1
    row = width * channels * bits // 8
    step = step or row
    planes = {"nv12": 1.5, "nv21": 1.5, "nv24": 3.0}.get(base, 1.0)
    odd_x = width % 2 and (planes == 1.5 or base.startswith(("u", "y")))
    too_small = base.startswith("bayer") and min(height, width) < 3
    whole = int(height * planes) * step
    if step < row or odd_x or (planes == 1.5 and height % 2) or too_small or len(message.data) < whole:
        return None
    return _picture(message, base, bits, channels, row, step)


def _picture(message: Any, base: str, bits: int, channels: int, row: int, step: int) -> np.ndarray:
    height, width, data = message.height, message.width, bytes(message.data)
    kind = np.dtype((">" if message.is_bigendian else "<") + f"u{bits // 8}")
    if base == "nv24":
        luma = [data[y * step :][:width] for y in range(height)]
        chroma = [data[height * step + y * 2 * step :][: 2 * width] for y in range(height)]
        return _from_yuv(
            np.frombuffer(b"".join(luma), np.uint8), np.frombuffer(b"".join(chroma), np.uint8), width
        )
    rows = int(height * 1.5) if base in ("nv12", "nv21") else height
    joined = b"".join(data[y * step :][:row] for y in range(rows))
    samples = np.frombuffer(joined, kind).reshape(rows, width, channels)
    if base in INTERLEAVED:
        return np.rint(samples[..., list(INTERLEAVED[base][1])] / (257 if bits == 16 else 1)).astype(int)
    native = samples.astype(np.uint16 if bits == 16 else np.uint8)
    pixels = cv2.cvtColor(native[..., 0] if channels == 1 else native, BY_OPENCV[base])
    return np.rint(pixels / (257 if bits == 16 else 1)).astype(int)


def _from_yuv(luma: np.ndarray, chroma: np.ndarray, width: int) -> np.ndarray:
    """BT.601 of limited range, by its definition."""
    y = np.maximum(luma.astype(float).reshape(-1, width) - 16, 0) * 255 / 219
    u, v = (chroma.astype(float).reshape(-1, width, 2)[..., i] - 128 for i in (0, 1))
    red, blue = y + 1.402 * 255 / 224 * v, y + 1.772 * 255 / 224 * u
    green = (y - 0.299 * red - 0.114 * blue) / 0.587
    return np.clip(np.rint(np.stack([red, green, blue], -1)), 0, 255).astype(int)
