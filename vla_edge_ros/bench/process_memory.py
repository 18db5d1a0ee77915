# SPDX-License-Identifier: Apache-2.0
"""How much memory a run takes, asked of the kernel and the driver, not of an allocator's books."""

from __future__ import annotations

from pathlib import Path


def resident_mb() -> float:
    """This process's resident set in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise OSError("expected a VmRSS line in /proc/self/status")


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
