# SPDX-License-Identifier: Apache-2.0
"""What remembering costs in actions, by the camera's rate: half of all decisions are refused at random.

    python -m vla_edge_ros.bench.studies.remembering_cameras [--cycles 10000] [--json FILE]

The control loop's rules for frames, 30 cycles a second: the newest frame is taken unless it was used. A
refused one is left for the next cycle, or remembered, which is *at once* or where ``CameraPace`` allows it. A
prefill always fits. ``behind_ms``: how long behind a cycle's start frames come, where both rates are equal.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.bench.report import command, print_table, write_json
from vla_edge_ros.bench.studies.admission_sim import DEFAULT_CYCLES
from vla_edge_ros.console import console_program
from vla_edge_ros.runtime.camera_pace import CameraPace

LOOP_HZ = 30.0
REFUSED = 0.5  # share of the decisions


@dataclass(frozen=True, slots=True)
class Camera:
    """``burst``: frames that arrive together; ``jitter_ms``: each comes up to so much earlier or later."""

    hz: float
    behind_ms: float = 0.0
    jitter_ms: float = 0.0
    burst: int = 1

    def newest(self, cycles: int) -> NDArray[np.int64]:
        """Number of the newest frame in each of so many cycles, from 1; 0 before the first."""
        numbers = np.arange(round(cycles / LOOP_HZ * self.hz) + 2 * self.burst)
        jitter_ms = np.random.default_rng(0).uniform(-1.0, 1.0, numbers.size) * self.jitter_ms
        # A microsecond early, so that rounding decides nothing where a frame is due at a cycle's start.
        arrived = (numbers // self.burst) * self.burst / self.hz + (self.behind_ms + jitter_ms) / 1e3 - 1e-6
        return np.searchsorted(np.sort(arrived), np.arange(cycles) / LOOP_HZ, "right")


CAMERAS = (
    *(Camera(hz) for hz in (10.0, 15.0, 25.0, 28.0, 29.0)),
    Camera(29.97, jitter_ms=6.0),
    *(Camera(30.0, behind_ms, jitter_ms=6.0) for behind_ms in (0.0, 5.0, 16.0)),
    Camera(30.0, burst=2),
    Camera(60.0, jitter_ms=6.0),
)


RULES = ("never", "at once", "by the camera")


def play(camera: Camera, cycles: int, rule: str) -> tuple[int, int]:
    """Frames that were acted on, and that were remembered, under one of ``RULES``."""
    refusals = np.random.default_rng(1).random(cycles) < REFUSED
    pace, used, acted, remembered = CameraPace(), 0, 0, 0
    for cycle, newest in enumerate(camera.newest(cycles).tolist()):
        if newest:
            pace.see(cycle, newest)
        if newest <= used:
            continue
        if not refusals[cycle]:
            acted, used = acted + 1, newest
        elif rule == "at once" or (rule == "by the camera" and pace.is_one_a_cycle):
            remembered, used = remembered + 1, newest
    return acted, remembered


def simulate(cycles: int) -> list[dict[str, object]]:
    """One row a camera; counts of frames."""
    rows: list[dict[str, object]] = []
    for camera in CAMERAS:
        (before, _), (at_once, _), (acted, remembered) = (play(camera, cycles, rule) for rule in RULES)
        rows.append(
            {
                "camera_hz": camera.hz,
                "burst": camera.burst,
                "behind_ms": camera.behind_ms,
                "jitter_ms": camera.jitter_ms,
                "cycles": cycles,
                "acted_without": before,
                "acted_at_once": at_once,
                "acted": acted,
                "remembered": remembered,
            }
        )
    return rows


@console_program
def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="remembering_cameras", description=__doc__.partition("\n")[0])
    parser.add_argument("--cycles", type=int, default=DEFAULT_CYCLES, help="cycles with each camera")
    parser.add_argument("--json", help="write the rows here, e.g. docs/benchmarks/remembering-cameras.json")
    options = parser.parse_args(arguments)
    rows = simulate(options.cycles)
    print_table(rows)
    if options.json:
        write_json(options.json, command("studies.remembering_cameras", arguments), rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
