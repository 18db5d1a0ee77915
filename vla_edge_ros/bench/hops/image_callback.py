# SPDX-License-Identifier: Apache-2.0
"""What the image callback costs: convert, resize to the model's frame, write to the slot.

``python -m vla_edge_ros.bench.hops.image_callback --json docs/benchmarks/image_callback.json``
"""

from __future__ import annotations

import argparse
import time
from array import array
from typing import Any

import numpy as np

from vla_edge_ros.bench.report import command, print_table, quantiles, write_json
from vla_edge_ros.config import FrameConfig
from vla_edge_ros.console import console_program
from vla_edge_ros.imaging import LAYOUTS, resize_rgb, to_rgb
from vla_edge_ros.runtime.frame_slot import FrameSlot

SIZES = ((640, 480), (1920, 1080))
ENCODINGS = ("rgb8", "bgr8", "mono8", "yuv422_yuy2", "nv12", "bayer_rggb8", "rgb16")
PADDING = 64  # bytes a row, as drivers that align rows send


def measure(encoding: str, width: int, height: int, padding: int, repeats: int) -> dict[str, Any]:
    """One row: microseconds of the whole callback body, and of its conversion alone."""
    layout, frame = LAYOUTS[encoding], FrameConfig()
    step = width * layout.channels * layout.bits // 8 + padding
    size = int(height * layout.planes) * step
    data = array("B", np.random.default_rng(0).integers(0, 256, size, np.uint8).tobytes())
    slot = FrameSlot(frame.height, frame.width)
    whole, convert = [], []
    for stamp_ns in range(repeats):
        begin = time.perf_counter_ns()
        pixels = to_rgb(height, width, encoding, False, step, data)
        converted = time.perf_counter_ns()
        slot.write(resize_rgb(pixels, frame.width, frame.height), stamp_ns)
        whole.append((time.perf_counter_ns() - begin) / 1e3)
        convert.append((converted - begin) / 1e3)
    row: dict[str, Any] = {"encoding": encoding, "width": width, "height": height, "padding_bytes": padding}
    row |= {f"callback_us_{name}": value for name, value in quantiles(whole).items()}
    return row | {"convert_us_median": quantiles(convert)["median"]}


@console_program
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--json", help="also write the rows to this file")
    options = parser.parse_args()
    rows = [
        measure(encoding, width, height, padding, options.repeats)
        for width, height in SIZES
        for encoding in ENCODINGS
        for padding in ((0, PADDING) if encoding == "rgb8" else (0,))
    ]
    print_table(rows)
    if options.json:
        write_json(options.json, command("hops.image_callback"), rows)


if __name__ == "__main__":
    main()
