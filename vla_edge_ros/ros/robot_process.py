# SPDX-License-Identifier: Apache-2.0
"""The simulated robot in a process of its own, for programs that hold the reasoner themselves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from vla_edge_ros.errors import VlaEdgeError
from vla_edge_ros.ros.parent_watch import LAUNCH_PID
from vla_edge_ros.tabletop.results import EpisodeResult, read_results

# The film of a long run takes its time to write.
PATIENCE_S = 60.0


class RobotProcess:
    """``rules``: parameters as ``name:=value``. Ends with this process, whatever ends that."""

    def __init__(self, namespace: str, results: Path, rules: Sequence[str]):
        self._results = results
        # Its results are told by the owner.
        arguments = ["--ros-args", "--log-level", "warn", "-r", f"__ns:=/{namespace}"]
        for rule in [*rules, f"results:='{results}'"]:
            arguments += ["-p", rule]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "vla_edge_ros.ros.tabletop_node", *arguments],
            env={**os.environ, LAUNCH_PID: str(os.getpid())},
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C ends the reasoner first, then this one is told
        )

    @property
    def results(self) -> list[EpisodeResult]:
        """Of the episodes that have ended."""
        return read_results(self._results)

    def has_ended(self) -> bool:
        """Whether it is over, after its last episode. Raises ``VlaEdgeError`` where it failed."""
        code = self._process.poll()
        if code:
            raise VlaEdgeError(f"the simulated robot ended with exit code {code}; its last lines say why")
        return code is not None

    def stop(self) -> None:
        """Ask it to end, and wait; safe to call twice."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
