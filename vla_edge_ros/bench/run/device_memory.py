# SPDX-License-Identifier: Apache-2.0
"""Memory in use on NVIDIA devices, asked of the driver's management library (NVML) from any process.

It needs no CUDA context, which would take memory itself, and no process of ``nvidia-smi`` ten times a second,
which shows the same number. It is that of a whole device, of everybody: the driver tells the memory of single
processes to those who share its process numbers only, which a container does not.
"""

from __future__ import annotations

import ctypes

MIB = 2**20


class _Memory(ctypes.Structure):
    """``nvmlMemory_t``."""

    _fields_ = [
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    ]


class DeviceMemory:
    """All devices of the machine together; ``count`` 0 where there is none, or no driver."""

    def __init__(self, library: str = "libnvidia-ml.so.1"):
        self.count = 0
        self._devices: list[ctypes.c_void_p] = []
        try:
            self._nvml = ctypes.CDLL(library)
        except OSError:
            return
        number = ctypes.c_uint(0)
        if self._nvml.nvmlInit_v2() or self._nvml.nvmlDeviceGetCount_v2(ctypes.byref(number)):
            return
        for index in range(number.value):
            device = ctypes.c_void_p()
            if not self._nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)):
                self._devices.append(device)
        self.count = len(self._devices)

    def used_mb(self) -> float | None:
        """MiB in use; None without a device, or where the driver does not answer."""
        total = 0
        for device in self._devices:
            memory = _Memory()
            if self._nvml.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)):
                return None
            total += memory.used
        return total / MIB if self._devices else None
