# SPDX-License-Identifier: Apache-2.0
"""A worker process that is replaced when an input kills it or makes it hang."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

CASE_CPU_S = 20.0
CASE_WALL_S = 300.0  # where nothing is computed: a deadlock
START_WALL_S = 300.0
CASES_A_PROCESS = 2000  # what libraries keep for each context must not add up to a finding
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class Worker:
    """Runs inputs of one target, one at a time. ``cpu_s`` adds up what all its processes have used."""

    def __init__(self, target: str):
        self.target = target
        self.cpu_s = 0.0
        self._process: subprocess.Popen[str] | None = None
        self._cases = 0

    def run_seed(self, seed: str) -> dict[str, Any]:
        return self._run({"seed": seed})

    def run_file(self, path: Path) -> dict[str, Any]:
        return self._run({"file": str(path)})

    def close(self) -> None:
        if self._process is not None:
            self.cpu_s += self._used_s()
            self._process.kill()
            self._process.wait()
            self._process = None

    def _run(self, request: dict[str, str]) -> dict[str, Any]:
        """The worker's own answer, or a finding where it died or did not answer."""
        self._cases += 1
        if self._cases % CASES_A_PROCESS == 0:
            self.close()
        process = self._started()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            reply = self._reply(CASE_CPU_S, CASE_WALL_S)
        except BrokenPipeError:
            reply = {}
        except TimeoutError as hang:
            self.close()
            return {
                "verdict": "finding",
                "signature": f"hang of {self.target}",
                "detail": str(hang),
                "cpu_s": 0.0,
            }
        if reply:
            return reply
        code = process.wait()
        self._process = None
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        self._log.seek(0)
        tail = self._log.read()[-4000:]
        return {
            "verdict": "finding",
            "signature": f"{self.target} ends by {name}",
            "detail": tail,
            "cpu_s": 0.0,
        }

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._log = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - as long as the process
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("worker.py")), self.target],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
            )
            if not self._reply(START_WALL_S, START_WALL_S):
                self._log.seek(0)
                raise RuntimeError(f"the worker of {self.target} does not start:\n{self._log.read()}")
        return self._process

    def _reply(self, cpu_s: float, wall_s: float) -> dict[str, Any]:
        """The next line, empty where the process has ended. Raises ``TimeoutError``."""
        assert self._process is not None and self._process.stdout is not None
        begin_s, used_s = time.monotonic(), self._used_s()
        while not select.select([self._process.stdout], [], [], 0.25)[0]:
            if self._used_s() - used_s > cpu_s:
                raise TimeoutError(f"no answer after {cpu_s:g} s of CPU time")
            if time.monotonic() - begin_s > wall_s:
                raise TimeoutError(f"no answer after {wall_s:g} s")
        line = self._process.stdout.readline()
        return json.loads(line) if line else {}

    def _used_s(self) -> float:
        assert self._process is not None
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND
