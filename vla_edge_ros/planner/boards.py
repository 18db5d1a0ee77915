# SPDX-License-Identifier: Apache-2.0
"""The boards that are known by their published figures (``boards.json``, where each has its sources)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from vla_edge_ros.engines.cuda.plan.device_sizes import Device
from vla_edge_ros.errors import ConfigError

FILE = Path(__file__).with_name("boards.json")

# Bytes of shared memory of a block and of a multiprocessor, by compute capability times ten: the CUDA C++
# Programming Guide's table "Memory Information per Compute Capability" (163/164, 99/100, 227/228 KB).
_SHARED_BYTES = {
    87: (166912, 167936),
    89: (101376, 102400),
    90: (232448, 233472),
    110: (232448, 233472),
    120: (101376, 102400),
}


@dataclass(frozen=True, slots=True)
class Source:
    """``states``: what was taken from the page at ``url`` when it was read, on ``read`` (ISO date)."""

    url: str
    read: str
    states: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """Published peaks. GB and GB/s are of 10^9 bytes; TFLOPS and TOPS are dense, TFLOPS add in float32.

    ``device_names``: what CUDA calls it. ``reserved_gb``: assumed to be taken by the system, the other nodes
    and the display, where CPU and GPU share the memory.
    """

    key: str
    name: str
    device_names: tuple[str, ...]
    architecture: int
    multiprocessors: int
    clock_ghz: float
    l2_mb: float
    bandwidth_gb_s: float
    memory_gb: float
    shared_with_cpu: bool
    reserved_gb: float
    bf16_tflops: float
    int8_tops: float
    power_w: float
    notes: str
    sources: tuple[Source, ...]

    @property
    def device(self) -> Device:
        """As the engine would see it."""
        block, multiprocessor = _SHARED_BYTES[self.architecture]
        l2_bytes = round(self.l2_mb * (1 << 20))
        return Device(self.name, self.architecture, self.multiprocessors, block, multiprocessor, l2_bytes)

    @property
    def available_bytes(self) -> int:
        """Of memory, for the engine and its CUDA context."""
        return round((self.memory_gb - self.reserved_gb) * 1e9)


@cache
def boards() -> dict[str, Board]:
    """All boards by key, as in the file."""
    stored = json.loads(FILE.read_text(encoding="utf-8"))
    return {key: _read(key, values) for key, values in stored.items()}


def _read(key: str, values: dict) -> Board:
    sources = tuple(Source(**source) for source in values.pop("sources"))
    names = tuple(values.pop("device_names"))
    return Board(key=key, device_names=names, sources=sources, **values)


def find_board(key: str) -> Board:
    """``ConfigError`` that names the known ones where ``key`` is none of them."""
    if key not in boards():
        raise ConfigError(f"--board must be one of {', '.join(boards())}, got {key!r}")
    return boards()[key]


def boards_of(device: Device) -> list[Board]:
    """Those that ``device`` may be: CUDA calls all Orin modules by one name. None where it is not known."""
    return [
        board
        for board in boards().values()
        if device.name in board.device_names
        and device.architecture == board.architecture
        and device.multiprocessors == board.multiprocessors
    ]
