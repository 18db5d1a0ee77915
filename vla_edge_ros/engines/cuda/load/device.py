# SPDX-License-Identifier: Apache-2.0
"""Ask the device for its limits; nothing is assumed of any one chip."""

from __future__ import annotations

import cupy

from vla_edge_ros.engines.cuda.plan.device_sizes import Device
from vla_edge_ros.errors import EngineError


def current_device() -> Device:
    try:
        properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise EngineError(f"expected a CUDA device, got {error}") from error
    return Device(
        name=properties["name"].decode(),
        architecture=properties["major"] * 10 + properties["minor"],
        multiprocessors=properties["multiProcessorCount"],
        shared_bytes=properties["sharedMemPerBlockOptin"],
        shared_bytes_sm=properties["sharedMemPerMultiprocessor"],
        l2_bytes=properties["l2CacheSize"],
    )
