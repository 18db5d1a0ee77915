# SPDX-License-Identifier: Apache-2.0
"""The processes of one trial: how each is started, that all of them end, and what they said."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from vla_edge_ros.bench.run.plan import NAMESPACE, Plan, Trial
from vla_edge_ros.bench.run.trial_options import TrialOptions
from vla_edge_ros.errors import printable
from vla_edge_ros.ros.launch_choices import quoted
from vla_edge_ros.ros.parent_watch import LAUNCH_PID

REASONER, CAMERA = "reasoner", "camera"
EPISODES_FILE = "episodes.jsonl"
PATIENCE_S = 20.0  # from the request to end to the kill
LOG_LINES = 400


def commands(plan: Plan, trial: Trial, folder: Path) -> dict[str, list[str]]:
    """Arguments of each process, by name; the one that ends the trial is ``reasoner``."""
    options = TrialOptions(
        folder=folder, trial_s=plan.trial_s, source=plan.source, rate_hz=plan.rate_hz
    ).arguments()
    python = [sys.executable, "-m"]
    if not plan.uses_ros:
        return {REASONER: [*python, "vla_edge_ros.bench.run.single_process", *options]}
    return {
        REASONER: [*python, "vla_edge_ros.bench.run.reasoner_process", *options],
        CAMERA: [*python, *_camera(plan, trial, folder)],
    }


def _camera(plan: Plan, trial: Trial, folder: Path) -> list[str]:
    if plan.is_tabletop:
        rules = {
            "camera_hz": str(round(plan.rate_hz)),
            "first_seed": str(plan.first_episode(trial)),
            "results": quoted(str(folder / EPISODES_FILE)),
        }
        module = "vla_edge_ros.ros.tabletop_node"
    else:
        rules = {
            "source": quoted(plan.source),
            "rate_hz": f"{plan.rate_hz:.6f}",
            "wait_for_subscriber": "always",  # every trial begins with the first picture
        }
        module = "vla_edge_ros.ros.replay_node"
    arguments = [module, "--ros-args", "-r", f"__ns:=/{NAMESPACE}"]
    for name, value in rules.items():
        arguments += ["-p", f"{name}:={value}"]
    return arguments


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """Of the processes: they end with this one, and their graph stays on this machine."""
    local = {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
    if given.get("ROS_DISTRO") == "humble":
        local = {"ROS_LOCALHOST_ONLY": "1"}
    return {**given, **local, LAUNCH_PID: str(os.getpid()), "PYTHONUNBUFFERED": "1"}


class TrialProcesses:
    """Started by the constructor; their output goes to ``<name>.log`` in ``folder``."""

    def __init__(self, started: Mapping[str, Sequence[str]], folder: Path):
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        try:
            for name, command in started.items():
                with (folder / f"{name}.log").open("wb") as log:
                    self._processes[name] = subprocess.Popen(
                        command,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        env=environment(os.environ),
                        start_new_session=True,  # Ctrl-C is for the starter, which ends these in order
                    )
        except BaseException:
            self.stop()
            raise

    @property
    def pids(self) -> dict[str, int]:
        return {name: process.pid for name, process in self._processes.items()}

    def ended(self) -> dict[str, int]:
        """Exit codes of those that have ended."""
        codes = {name: process.poll() for name, process in self._processes.items()}
        return {name: code for name, code in codes.items() if code is not None}

    def stop(self) -> None:
        """Ask them to end, the reasoner first, and wait; safe to call twice."""
        for process in self._processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(PATIENCE_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def last_words(self, name: str) -> str:
        """The line of a log that says why its process ended: the last error, else the last line."""
        text = (self._folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")
        lines = [line.strip() for line in text.splitlines()[-LOG_LINES:] if line.strip()]
        errors = [line for line in lines if "error" in line.lower()]
        return printable((errors or lines or ["it said nothing"])[-1])
