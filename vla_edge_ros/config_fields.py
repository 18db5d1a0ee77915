# SPDX-License-Identifier: Apache-2.0
"""A field of a configuration: its default, what it means and which values it takes, in one place."""

from __future__ import annotations

import math
from dataclasses import field, fields, is_dataclass
from typing import Any

from vla_edge_ros.errors import ConfigError


def param(
    default: Any,
    description: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """A dataclass field with what ROS descriptors, validation and the docs table need."""
    metadata = {"description": description, "low": low, "high": high, "choices": choices}
    if isinstance(default, tuple):
        return field(default_factory=lambda: default, metadata=metadata)
    return field(default=default, metadata=metadata)


def check_fields(section: str, config: Any) -> None:
    """Check every leaf of ``config`` against its metadata; the type comes from the default."""
    for item in fields(config):
        name, value = f"{section}.{item.name}".removeprefix("."), getattr(config, item.name)
        if is_dataclass(value):
            continue
        default = item.default_factory() if callable(item.default_factory) else item.default
        whole_number = type(default) is float and type(value) is int
        if type(value) is not type(default) and not whole_number:
            raise ConfigError(f"{name} must be a {type(default).__name__}, got {value!r}")
        for number in value if isinstance(value, tuple) else (value,):
            if not isinstance(number, float | int) or isinstance(number, bool):
                continue
            low, high = item.metadata["low"], item.metadata["high"]
            if not math.isfinite(number):
                raise ConfigError(f"{name} must be finite, got {value}")
            if low is not None and number < low:
                raise ConfigError(f"{name} must be at least {low}, got {value}")
            if high is not None and number > high:
                raise ConfigError(f"{name} must be at most {high}, got {value}")
        choices = item.metadata["choices"]
        for word in value if isinstance(value, tuple) else (value,):
            if choices and word not in choices:
                raise ConfigError(f"{name} must be one of {', '.join(choices)}, got {word!r}")
