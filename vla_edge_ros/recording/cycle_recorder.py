# SPDX-License-Identifier: Apache-2.0
"""Record a run: a folder with ``cycles.csv`` (one row a cycle) and ``run.json`` (configuration, memory).

The control loop calls ``record``, which never waits for the disk; a thread writes.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import logging
import os
import resource
import time
from collections.abc import Sequence
from pathlib import Path

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.errors import ConfigError
from vla_edge_ros.recording.background_writer import BackgroundWriter
from vla_edge_ros.recording.cycle_table import columns, to_row
from vla_edge_ros.types import CycleRecord, MemoryReport

LOGGER = logging.getLogger(__name__)

CYCLES_FILE = "cycles.csv"
RUN_FILE = "run.json"
WAITING_RECORDS = 4096  # over a minute at 60 Hz; a disk that hangs longer costs rows, not cycles
RUN_FILE_PERIOD_S = 5.0


def new_run_folder(path: str | Path) -> Path:
    """Make ``path/run_<UTC time>``, so that a restart never writes over an earlier run.

    Raises ``ConfigError`` where it cannot be made.
    """
    name = time.strftime("run_%Y%m%d_%H%M%S", time.gmtime())
    for attempt in range(1000):
        folder = Path(os.path.expanduser(path)) / (name if attempt == 0 else f"{name}_{attempt}")
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            if not folder.is_dir():
                raise ConfigError(f"recording.path must be a folder, got {path!s}, which is not") from None
        except OSError as error:
            raise ConfigError(f"recording.path must be a folder that can be written to: {error}") from error
    raise ConfigError(f"recording.path has no free name for {name}: {path!s}")


class CycleRecorder:
    """Writes the records of one run into a new folder below ``path``, see ``folder``.

    ``dropped`` counts records that did not reach the disk, ``error`` says why the writing stopped, if it did.
    """

    def __init__(self, path: str | Path, config: VlaConfig | None = None):
        config = config or VlaConfig()
        self.folder = new_run_folder(path)
        self._config = config
        self._dimensions = config.action.tokens
        self._device = MemoryReport()
        self._run_file_due_s = 0.0
        self._unwritable = 0
        self._file = (self.folder / CYCLES_FILE).open(
            "w", encoding="utf-8", errors="backslashreplace", newline=""
        )
        self._csv = csv.writer(self._file, lineterminator="\n")
        self._csv.writerow(columns(config.action.names))
        self._file.flush()
        self._writer: BackgroundWriter[CycleRecord] = BackgroundWriter(
            "cycle recorder", self._write, WAITING_RECORDS, self._finish
        )
        self._write_run_file()

    @property
    def dropped(self) -> int:
        return self._writer.dropped + self._unwritable

    @property
    def error(self) -> str:
        return self._writer.error

    def record(self, record: CycleRecord) -> None:
        """Queue one cycle; any thread, never waits."""
        self._writer.put(record)

    def note_memory(self, report: MemoryReport) -> None:
        """Keep the engine's newest memory report for ``run.json``; any thread, never waits."""
        self._device = report

    def close(self) -> None:
        """Write what waits and end the files; safe to call twice. Raises nothing, see ``error``."""
        self._writer.close()

    def _finish(self) -> None:
        self._file.close()
        self._write_run_file()

    def _write(self, records: Sequence[CycleRecord]) -> None:
        for record in records:
            self._write_row(record)
        self._file.flush()  # a crash of the process then loses at most the batch that is being written
        if time.monotonic() >= self._run_file_due_s:
            self._write_run_file()

    def _write_row(self, record: CycleRecord) -> None:
        try:
            row = to_row(record, self._dimensions)
        except Exception:  # one broken record must not cost the rows behind it
            self._unwritable += 1
            if self._unwritable == 1:
                LOGGER.exception("no row for %s; further ones are only counted", record)
            return
        self._csv.writerow(row)

    def _write_run_file(self) -> None:
        """Replace ``run.json`` as a whole, so that a reader never finds half of one."""
        self._run_file_due_s = time.monotonic() + RUN_FILE_PERIOD_S
        document = {
            "config": dataclasses.asdict(self._config),
            "host_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "device_parts_bytes": self._device.parts,
            "device_peak_bytes": self._device.peak_bytes,
            "dropped_records": self.dropped,
        }
        draft = self.folder / (RUN_FILE + ".part")
        draft.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        draft.replace(self.folder / RUN_FILE)
