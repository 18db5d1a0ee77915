# SPDX-License-Identifier: Apache-2.0
"""Memory of other processes, every 100 ms, by a thread of the process that started them."""

from __future__ import annotations

import csv
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from vla_edge_ros.bench.process_memory import resident_mb
from vla_edge_ros.bench.run.device_memory import DeviceMemory
from vla_edge_ros.errors import SourceError

PERIOD_S = 0.1
MEMORY_FILE = "memory.csv"
DEVICE = "device"
HEADER = ("at_s", "name", "mb")


@dataclass(frozen=True, slots=True)
class MemorySample:
    """``name``: of a process, or ``device``; ``at_s``: since the first process was started."""

    at_s: float
    name: str
    mb: float


class MemorySampler:
    """Writes ``memory.csv`` into ``folder`` line by line until ``stop``; ``processes``: pid by name.

    A process that has ended has no more samples.
    """

    def __init__(
        self,
        folder: Path,
        processes: Mapping[str, int],
        device: DeviceMemory,
        read_mb: Callable[[int], float] = resident_mb,
    ):
        self._processes = dict(processes)
        self._device = device
        self._read_mb = read_mb
        self._stopping = threading.Event()
        self._begun_s = time.monotonic()
        self._file = (folder / MEMORY_FILE).open("w", encoding="utf-8", newline="")
        self._csv = csv.writer(self._file, lineterminator="\n")
        self._csv.writerow(HEADER)
        self._thread = threading.Thread(target=self._run, name="memory_sampler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Safe to call twice."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._file.close()

    def sample(self) -> None:
        """One row a process, and one of the devices where there are any."""
        at_s = f"{time.monotonic() - self._begun_s:.3f}"
        for name, pid in self._processes.items():
            try:
                self._csv.writerow((at_s, name, f"{self._read_mb(pid):.3f}"))
            except OSError:  # it has ended
                continue
        if (used_mb := self._device.used_mb()) is not None:
            self._csv.writerow((at_s, DEVICE, f"{used_mb:.3f}"))
        self._file.flush()

    def _run(self) -> None:
        due_s = self._begun_s
        while not self._stopping.wait(max(0.0, due_s - time.monotonic())):
            self.sample()
            due_s = max(due_s + PERIOD_S, time.monotonic())


def read_samples(path: Path) -> list[MemorySample]:
    """Whole lines of ``memory.csv``; none where there is no file. Raises ``SourceError``."""
    if not path.is_file():
        return []
    whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
    rows = list(csv.reader(whole.splitlines()))
    try:
        return [MemorySample(float(at_s), name, float(mb)) for at_s, name, mb in rows[1:]]
    except ValueError as error:
        raise SourceError(f"{path}: expected rows of {', '.join(HEADER)}, got: {error}") from error
