# SPDX-License-Identifier: Apache-2.0
"""How every benchmark reports: machine, commit, command, rows of numbers; a table and a JSON file.

A row is a flat dict; a number's unit is in its key (``write_ns_p99``). The same rows go to both outputs.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vla_edge_ros.quantiles import quantile

_SHARES = {"median": 0.5, "p99": 0.99, "max": 1.0}


def machine() -> dict[str, Any]:
    """Processor, cores, kernel, Python; and the GPU where CuPy sees one. Names no host and no user."""
    return {
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "gpu": _gpu_name(),
    }


def commit() -> str:
    """What was measured: ``$VLA_EDGE_COMMIT``, else the checkout, with ``+`` where it is changed."""
    if named := os.environ.get("VLA_EDGE_COMMIT"):
        return named

    def git(*arguments: str) -> str:
        root = Path(__file__).resolve().parents[2]
        ran = subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=True)
        return ran.stdout.strip()

    try:
        return git("rev-parse", "--short=12", "HEAD") + ("+" if git("status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def command(module: str, arguments: Sequence[str] | None = None) -> str:
    """What to type to run the benchmark ``module`` again; ``arguments`` are those of this process if None."""
    given = sys.argv[1:] if arguments is None else arguments
    return shlex.join(["python", "-m", f"vla_edge_ros.bench.{module}", *given])


def quantiles(samples: ArrayLike) -> dict[str, float]:
    """Median, 99th percentile and maximum of ``samples`` ``[n]``, n > 0, by ``vla_edge_ros.quantiles``."""
    values = np.asarray(samples, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"expected a non-empty list of samples, got shape {values.shape}")
    ordered = np.sort(values)
    return {name: float(quantile(ordered, share)) for name, share in _SHARES.items()}


def write_json(path: str | Path, command: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write ``{"command", "commit", "machine", "rows"}``; not-finite numbers are refused, JSON has none."""
    document = {
        "command": command,
        "commit": commit(),
        "machine": machine(),
        "rows": [dict(row) for row in rows],
    }
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows under the union of their keys, in order of first appearance; numbers to the right."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [columns] + [[_cell(row.get(column, "")) for column in columns] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    numeric = [all(isinstance(row.get(column, 0), int | float) for row in rows) for column in columns]
    for line in cells:
        padded = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        )
        print("  ".join(padded).rstrip())


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
    return str(value)


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _gpu_name() -> str:
    try:
        import cupy

        return cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    except ImportError:
        return "none"
    except cupy.cuda.runtime.CUDARuntimeError:
        return "none"
