# SPDX-License-Identifier: Apache-2.0
"""Videos and still pictures: what is cut short plays as its beginning, a picture whole or not at all.

An input is the file's name, a line end, and the file.
"""

from __future__ import annotations

import functools
import io
import tempfile
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import av
import numpy as np
from byte_mutator import mutate
from frames import Played, play
from PIL import Image
from real_files import real_files

FRAMES, HEIGHT, WIDTH = 10, 48, 64
BIGGEST_REAL = 100_000
VIDEOS: dict[str, tuple[str, str, dict[str, str]]] = {  # codec, pixel format, options of the container
    "h264.mp4": ("libx264", "yuv420p", {}),
    "h264_front.mp4": ("libx264", "yuv420p", {"movflags": "faststart"}),
    "h264.mkv": ("libx264", "yuv420p", {}),
    "h264.ts": ("libx264", "yuv420p", {}),
    "mpeg4.avi": ("mpeg4", "yuv420p", {}),
    "mjpeg.avi": ("mjpeg", "yuvj420p", {}),
    "animation.gif": ("gif", "rgb8", {}),
}


def _picture(number: int) -> np.ndarray:
    """A gradient that moves, and a little noise."""
    x, y = np.meshgrid(np.arange(WIDTH), np.arange(HEIGHT))
    noise = np.random.default_rng(number).integers(0, 20, (HEIGHT, WIDTH, 3))
    return ((x * 3 + y * 2 + number * 9)[..., None] % 220 + noise).astype(np.uint8)


def _video(name: str, codec: str, pix_fmt: str, options: dict[str, str]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        with av.open(str(path), "w", options=options) as container:
            stream: Any = container.add_stream(codec, rate=25)
            stream.height, stream.width, stream.pix_fmt = HEIGHT, WIDTH, pix_fmt
            stream.codec_context.thread_count = 1  # the same bytes on every machine
            for number in range(FRAMES):
                frame = av.VideoFrame.from_ndarray(_picture(number), format="rgb24").reformat(format=pix_fmt)
                frame.pts, frame.time_base = number, Fraction(1, 25)
                container.mux(stream.encode(frame))
            container.mux(stream.encode())
        return path.read_bytes()


def _still(kind: str, mode: str = "RGB", **options: Any) -> bytes:
    file = io.BytesIO()
    picture = Image.fromarray(_picture(3))
    if mode == "I;16":
        picture = Image.fromarray(_picture(3)[..., 0].astype(np.uint16) * 257)
    elif mode != "RGB":
        picture = picture.convert(mode)
    picture.save(file, kind, **options)
    return file.getvalue()


@functools.cache
def bases() -> dict[str, bytes]:
    exif = Image.Exif()
    exif[0x0112] = 5  # mirrored and turned
    found = {name: _video(name, *how) for name, how in VIDEOS.items()}
    found |= {
        "rgb.png": _still("PNG"),
        "grey16.png": _still("PNG", "I;16"),
        "palette.png": _still("PNG", "P"),
        "alpha.png": _still("PNG", "RGBA"),
        "plain.jpg": _still("JPEG"),
        "progressive.jpg": _still("JPEG", progressive=True),
        "turned.jpg": _still("JPEG", exif=exif.tobytes()),
        "cmyk.jpg": _still("JPEG", "CMYK"),
        "plain.tif": _still("TIFF"),
        "packed.tif": _still("TIFF", compression="tiff_lzw"),
        "float.tif": _still("TIFF", "F"),
        "plain.bmp": _still("BMP"),
        "plain.ppm": _still("PPM"),
        "lossless.webp": _still("WEBP", lossless=True),
        "still.gif": _still("GIF", "P"),
    }
    for path in real_files("clips", (".mp4",), BIGGEST_REAL):
        found[path.name] = path.read_bytes()
    return found


def is_still(name: str) -> bool:
    return name not in VIDEOS and not name.endswith(".mp4")


def make(random: Random) -> bytes:
    name = random.choice(sorted(bases()))
    data = bases()[name]
    is_cut = random.random() < 0.25
    data = data[: random.randrange(len(data))] if is_cut else mutate(data, random)
    return name.encode() + b"\n" + data


@functools.cache
def _whole(name: str) -> Played:
    with tempfile.TemporaryDirectory() as folder:
        return play(_written(Path(folder), name, bases()[name]))


def _written(folder: Path, name: str, data: bytes) -> Path:
    """A still picture lies in a folder, the way that stills are played."""
    (folder / name).write_bytes(data)
    return folder if is_still(name) else folder / name


def check(data: bytes, folder: Path) -> str:
    line, _, contents = data.partition(b"\n")
    name = line.decode("utf-8", "replace")
    if name not in bases():
        return "no input"
    is_cut = bases()[name].startswith(contents)
    # FFmpeg's decoding threads race for what damage in the middle left of a reference frame.
    played = play(_written(folder, name, contents), is_repeatable=is_cut or is_still(name))
    if is_cut:
        _check_cut(name, played, is_whole=bases()[name] == contents)
    return "refused" if played.error else "good"


def _check_cut(name: str, played: Played, is_whole: bool) -> None:
    """Frames of the whole file in its order; a video's P frames may be there where its B frames are lost."""
    whole = _whole(name).frames
    rest = iter(whole)
    assert all(frame in rest for frame in played.frames), f"{name}: frames that the whole file has not"
    assert not is_whole or played.frames == whole, f"{name} plays otherwise the second time"
    assert not played.frames or not is_still(name) or played.frames == whole, f"{name}: half a picture"
