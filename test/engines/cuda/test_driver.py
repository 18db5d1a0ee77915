# SPDX-License-Identifier: Apache-2.0
"""The structs handed to the driver have the sizes and offsets of ``cuda.h`` (64-bit)."""

from __future__ import annotations

import ctypes

import pytest

from vla_edge_ros.engines.cuda.load import driver
from vla_edge_ros.errors import EngineError


def test_launch_config_and_attribute_have_the_layout_of_the_header():
    assert ctypes.sizeof(driver._LaunchAttribute) == 72  # id, padding to 8, a union of 64 bytes
    assert driver._LaunchAttribute.value.offset == 8
    assert ctypes.sizeof(driver._LaunchConfig) == 56
    assert driver._LaunchConfig.shared_bytes.offset == 24
    assert driver._LaunchConfig.stream.offset == 32
    assert driver._LaunchConfig.attributes.offset == 40
    assert driver._LaunchConfig.attribute_count.offset == 48


def test_a_missing_driver_is_an_engine_error(monkeypatch):
    def nothing(name):
        raise OSError(f"{name}: cannot open shared object file")

    driver._driver.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", nothing)
    with pytest.raises(EngineError, match="NVIDIA driver"):
        driver.set_function_attribute(1, driver.SHARED_MEMORY_CARVEOUT, 100)
    driver._driver.cache_clear()
