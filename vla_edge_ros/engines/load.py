# SPDX-License-Identifier: Apache-2.0
"""Which engine computes: the only place that knows them by name. Imports CuPy only where CUDA is chosen."""

from __future__ import annotations

import ctypes
import importlib
import logging

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.engines.base import Engine
from vla_edge_ros.engines.failures import one_line
from vla_edge_ros.engines.numpy_engine import NumpyEngine
from vla_edge_ros.errors import ConfigError, EngineError
from vla_edge_ros.model.decoder_config import resolve
from vla_edge_ros.model.weights import open_weights

LOGGER = logging.getLogger(__name__)


def load_engine(config: VlaConfig) -> Engine:
    """The engine that ``engine.name`` asks for, not loaded.

    ``auto`` takes CUDA where it works (``require_cuda``) and the kernels accept the model's sizes, NumPy
    elsewhere, and logs why.
    """
    positions = resolve(config.model).max_position_embeddings
    if config.cache.capacity_slots > positions:
        raise ConfigError(
            f"cache.capacity_slots must not exceed the model's max_position_embeddings, "
            f"got {config.cache.capacity_slots} > {positions}"
        )
    name = config.engine.name
    if name == "auto":
        name = _working_engine(config)
    elif name == "cuda":
        try:
            require_cuda()
        except EngineError as missing:
            raise EngineError(f"engine.name is cuda: {missing}") from missing
    if name == "numpy":
        return NumpyEngine(config, open_weights(config.model))
    engine: Engine = importlib.import_module("vla_edge_ros.engines.cuda.engine").CudaEngine(config)
    return engine


def require_cuda() -> None:
    """``EngineError`` with what keeps CUDA from working on this machine, in one line.

    Driver and device are asked first: without them nobody need wait the second that CuPy takes to import.
    Then a kernel is compiled, loaded and run (``engines.cuda.probe``).
    """
    _require_device()
    try:
        importlib.import_module("cupy")
    except Exception as error:  # whatever a broken installation throws
        raise EngineError(
            f"expected CuPy to be installed (pip install 'cupy-cuda12x[ctk]'), got {one_line(error)}"
        ) from error
    importlib.import_module("vla_edge_ros.engines.cuda.load.probe").require_working_cuda()


def _require_device() -> None:
    """Ask the driver itself."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise EngineError(f"expected an NVIDIA driver (libcuda.so.1), got {one_line(error)}") from error
    devices = ctypes.c_int(0)
    status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(devices))
    if status != 0:
        text = ctypes.c_char_p()
        driver.cuGetErrorString(status, ctypes.byref(text))
        reason = (text.value or b"unknown error").decode()
        raise EngineError(f"expected the NVIDIA driver to start, got its error {status}: {reason}")
    if devices.value == 0:
        raise EngineError("expected a CUDA device, got none (CUDA_VISIBLE_DEVICES may hide it)")


def _working_engine(config: VlaConfig) -> str:
    try:
        require_cuda()
        device = importlib.import_module("vla_edge_ros.engines.cuda.load.device")
        planner = importlib.import_module("vla_edge_ros.engines.cuda.plan.planner")
        planner.plan(resolve(config.model), config, device.current_device())
    except EngineError as refusal:
        LOGGER.warning("engine.name is auto: numpy, since CUDA cannot be used: %s", refusal)
        return "numpy"
    return "cuda"
