# SPDX-License-Identifier: Apache-2.0
"""Which engine computes: the only place that knows them by name. Imports CuPy only where CUDA is chosen."""

from __future__ import annotations

import ctypes
import importlib
import logging

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.engines.base import Engine
from vla_edge_ros.engines.numpy_engine import NumpyEngine
from vla_edge_ros.errors import ConfigError, EngineError
from vla_edge_ros.model.decoder_config import resolve
from vla_edge_ros.model.weights import open_weights

LOGGER = logging.getLogger(__name__)


def load_engine(config: VlaConfig) -> Engine:
    """The engine that ``engine.name`` asks for, not loaded.

    ``auto`` takes CUDA where a device answers and the kernels accept the model's sizes, NumPy elsewhere.
    """
    positions = resolve(config.model).max_position_embeddings
    if config.cache.capacity_slots > positions:
        raise ConfigError(
            f"cache.capacity_slots must not exceed the model's max_position_embeddings, "
            f"got {config.cache.capacity_slots} > {positions}"
        )
    name = config.engine.name
    if name == "auto":
        name = "cuda" if _cuda_device_answers() and _cupy_imports() and _kernels_accept(config) else "numpy"
    if name == "numpy":
        return NumpyEngine(config, open_weights(config.model))
    try:
        cuda = importlib.import_module("vla_edge_ros.engines.cuda.engine")
    except ImportError as error:
        raise EngineError(f"engine.name is cuda: expected CuPy to be installed, got {error}") from error
    return cuda.CudaEngine(config)


def _cuda_device_answers() -> bool:
    """Ask the driver itself: without a device nobody need wait the second that CuPy takes to import."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    devices = ctypes.c_int(0)
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(devices)) == 0 and devices.value > 0


def _cupy_imports() -> bool:
    try:
        importlib.import_module("cupy")
    except ImportError:
        return False
    return True


def _kernels_accept(config: VlaConfig) -> bool:
    device = importlib.import_module("vla_edge_ros.engines.cuda.load.device")
    sizes = importlib.import_module("vla_edge_ros.engines.cuda.plan.sizes")
    try:
        sizes.plan(resolve(config.model), config, device.current_device())
    except EngineError as refusal:
        LOGGER.warning("engine.name is auto: numpy, since %s", refusal)
        return False
    return True
