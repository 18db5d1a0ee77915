# SPDX-License-Identifier: Apache-2.0
"""How much memory a run takes, asked of the kernel and the driver, not of an allocator's books."""

from __future__ import annotations

from pathlib import Path


def resident_mb(pid: int | str = "self") -> float:
    """A process's resident set in MiB, this one's by default. Raises ``OSError`` for one that has ended."""
    status = Path(f"/proc/{pid}/status")
    for line in status.read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise OSError(f"expected a VmRSS line in {status}")


def gpu_used_mb() -> float:
    """Memory in use on the current device in MiB, by whoever; 0 without a device."""
    try:
        import cupy
    except ImportError:
        return 0.0
    try:
        free, total = cupy.cuda.runtime.memGetInfo()
    except cupy.cuda.runtime.CUDARuntimeError:
        return 0.0
    return (total - free) / 2**20
