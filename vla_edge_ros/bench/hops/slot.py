# SPDX-License-Identifier: Apache-2.0
"""Cost of handing a frame over: ``FrameSlot.write`` and ``FrameSlot.latest``, one call at a time, in ns.

``python -m vla_edge_ros.bench.hops.slot [--width 128 --height 64 --calls 50000 --json FILE]``

One thread does both, so that nothing but the call is measured; the clock's own cost is a row of the table.
The rows called ``native`` leave out the ``Frame`` that the Python face makes.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from vla_edge_ros.bench import report
from vla_edge_ros.console import console_program
from vla_edge_ros.runtime.frame_slot import FrameSlot
from vla_edge_ros.runtime.native import native


def call_times_ns(call: Callable[[], Any], calls: int, before: Callable[[], Any] | None = None) -> list[int]:
    """Time ``call`` ``calls`` times, each by itself, with ``before`` untimed in front of it."""
    clock = time.perf_counter_ns
    times = [0] * calls
    for i in range(calls):
        if before is not None:
            before()
        start = clock()
        call()
        times[i] = clock() - start
    return times


def measure(height: int, width: int, calls: int) -> list[dict[str, Any]]:
    """One row an operation: frame size, median, p99 and maximum in ns."""
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    slot, core = FrameSlot(height, width), native.FrameSlot(height, width)

    def write() -> None:
        slot.write(pixels, 1)

    operations: list[tuple[str, Callable[[], Any], Callable[[], Any] | None]] = [
        ("clock alone", lambda: None, None),
        ("write", write, None),
        ("write, each one read", write, slot.latest),
        ("latest, new frame", slot.latest, write),
        ("latest, same frame", slot.latest, None),
        ("native write", lambda: core.write(pixels, 1), None),
        ("native latest, new frame", core.latest, lambda: core.write(pixels, 1)),
        ("numpy copy", lambda: np.copyto(spare, pixels), None),
    ]
    spare = np.empty_like(pixels)
    rows = []
    for name, call, before in operations:
        call_times_ns(call, calls // 10, before)
        gc.collect()
        times = report.quantiles(call_times_ns(call, calls, before))
        row: dict[str, Any] = {"operation": name, "width": width, "height": height, "calls": calls}
        rows.append(row | {f"{key}_ns": value for key, value in times.items()})
    return rows


@console_program
def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--height", type=int, default=64)
    parser.add_argument("--calls", type=int, default=50_000)
    parser.add_argument("--json", metavar="FILE", help="also write the rows there")
    options = parser.parse_args(arguments)
    rows = measure(options.height, options.width, options.calls)
    command = report.command("hops.slot", arguments)
    print(command)
    print(", ".join(f"{key} {value}" for key, value in report.machine().items()))
    report.print_table(rows)
    if options.json:
        report.write_json(options.json, command, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
