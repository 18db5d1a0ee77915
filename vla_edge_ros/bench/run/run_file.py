# SPDX-License-Identifier: Apache-2.0
"""``run.json``: what was run, where and how, and how each trial ended. Written anew after each of them."""

from __future__ import annotations

import json
import os
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from vla_edge_ros import __version__
from vla_edge_ros.bench.report import commit, machine
from vla_edge_ros.bench.run.plan import Plan
from vla_edge_ros.errors import ConfigError, SourceError

RUN_FILE = "run.json"
FORMAT = 1
COMPLETE, INCOMPLETE, FAILED, WAITING = "complete", "incomplete", "failed", "not started"
_PACKAGES = (
    "numpy",
    "cupy-cuda12x",
    "nvidia-cuda-nvrtc-cu12",
    "opencv-python-headless",
    "mujoco-core",
    "mcap",
)


def new_run_folder(out: Path) -> Path:
    """``out/benchmark_<UTC time>``. Raises ``ConfigError`` where it cannot be made."""
    name = time.strftime("benchmark_%Y%m%d_%H%M%S", time.gmtime())
    for attempt in range(1000):
        folder = out / (name if attempt == 0 else f"{name}_{attempt}")
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            if not folder.is_dir():
                break
        except OSError as error:
            raise ConfigError(f"--out must be a folder that can be written to: {error}") from error
    raise ConfigError(f"--out must be a folder, got {out}, which is not")


def versions() -> dict[str, str]:
    """Of what computes and what carries messages; what is not installed is left out."""
    found = {"vla_edge_ros": __version__, "python": platform.python_version(), "system": _system()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    ros = os.environ.get("ROS_DISTRO", "")
    try:
        found["ros"] = ros or f"kilted wheels, rclpy {version('ros-kilted-rclpy')}"
    except PackageNotFoundError:
        found["ros"] = "none"
    found["rmw"] = os.environ.get("RMW_IMPLEMENTATION", "default")
    return found


def _system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()


class RunFile:
    """The document, and the file in ``folder`` that follows it."""

    def __init__(self, folder: Path, plan: Plan, command: str):
        self._path = folder / RUN_FILE
        trials = [
            {
                "name": trial.name,
                "policy": trial.policy,
                "repeat": trial.repeat,
                "seed": trial.seed,
                "folder": trial.folder,
                "status": WAITING,
                "error": "",
            }
            for trial in plan.trials()
        ]
        self.document: dict[str, Any] = {
            "format": FORMAT,
            "complete": False,
            "begun_utc": _now(),
            "ended_utc": "",
            "command": command,
            "commit": commit(),
            "machine": machine(),
            "versions": versions(),
            "plan": plan.as_json(),
            "trials": trials,
        }
        self.write()

    def note(self, number: int, **values: Any) -> None:
        """Of trial ``number``, from 0."""
        self.document["trials"][number].update(values)
        self.write()

    def end(self) -> None:
        trials = self.document["trials"]
        self.document["complete"] = all(trial["status"] == COMPLETE for trial in trials)
        self.document["ended_utc"] = _now()
        self.write()

    def write(self) -> None:
        draft = self._path.with_suffix(".part")
        draft.write_text(json.dumps(self.document, indent=2, allow_nan=False) + "\n", encoding="utf-8")
        draft.replace(self._path)


def read_run_file(folder: Path) -> dict[str, Any]:
    """Raises ``SourceError`` where ``folder`` is no run folder of this program."""
    path = folder / RUN_FILE
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SourceError(f"{folder} must be a run folder of run_benchmarks, got: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT or "plan" not in document:
        raise SourceError(f"{folder} must be a run folder of run_benchmarks, got another {RUN_FILE}")
    return document


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
