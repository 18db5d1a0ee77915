# SPDX-License-Identifier: Apache-2.0
"""The range of each action dimension from a statistics file, as the policy's training normalised with it.

Two layouts are read. OpenVLA's: ``{dataset: {"action": {"q01": [...], "q99": [...], "mask": [...]}}}``, as
the whole file (``dataset_statistics.json``) or below ``norm_stats`` (``config.json``). LeRobot's
``stats.json``: ``{feature: {"q01": [...], "q99": [...]}}``, of which ``action`` is meant where none is
chosen. The wrong statistics give plausible actions that are wrong, so nothing is guessed.

OpenVLA un-normalises a token's a in [-1, 1] as 0.5 (a + 1) (q99 - q01) + q01 where the mask is true, and
leaves a as it is where it is false, as for the gripper (openvla ``modeling_prismatic.py``,
``predict_action``): ranges of q01 to q99, and of -1 to 1.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from vla_edge_ros.config import ActionConfig
from vla_edge_ros.errors import ConfigError, WeightsError
from vla_edge_ros.model.model_file import read_json_object

_FEATURE = "action"  # LeRobot's name of what is commanded
_NUMBERS = ("q01", "q99", "mean", "std", "min", "max")  # any of them: it is an entry of statistics


def with_statistics(config: ActionConfig) -> ActionConfig:
    """``config`` with ``low`` and ``high`` from its statistics file; itself where none is named.

    Raises ``ConfigError`` for a file that cannot be read, holds several data sets of which none is chosen,
    has no quantiles, or describes another number of dimensions.
    """
    if not config.statistics_file:
        return config
    path = Path(config.statistics_file)
    try:
        document = read_json_object(path)
    except WeightsError as error:
        raise ConfigError(f"action.statistics_file {error}") from error
    key, entry = _chosen(document, config)
    lows, highs = (_numbers(entry, name, key, config) for name in ("q01", "q99"))
    is_normalised = _mask(entry, key, config)
    try:
        return replace(
            config,
            statistics_file="",
            statistics="",
            low=tuple(end if is_in else -1.0 for end, is_in in zip(lows, is_normalised, strict=True)),
            high=tuple(end if is_in else 1.0 for end, is_in in zip(highs, is_normalised, strict=True)),
        )
    except ConfigError as error:
        raise ConfigError(f"action.statistics_file {path}: {key}: {error}") from error


def _chosen(document: Mapping[str, Any], config: ActionConfig) -> tuple[str, Mapping[str, Any]]:
    """The key and the statistics that ``action.statistics`` names, or the only ones that can be meant."""
    whole = document.get("norm_stats", document)
    entries = whole if isinstance(whole, Mapping) else {}
    datasets = {
        key: entry["action"]
        for key, entry in entries.items()
        if isinstance(entry, Mapping) and isinstance(entry.get("action"), Mapping)
    }
    features = {
        key: entry
        for key, entry in entries.items()
        if key not in datasets and isinstance(entry, Mapping) and any(name in entry for name in _NUMBERS)
    }
    found = {**datasets, **features}
    keys = ", ".join(sorted(found))
    if not found:
        raise ConfigError(
            f"action.statistics_file {config.statistics_file}: expected statistics by data set (OpenVLA) or "
            f"by feature (LeRobot), got the keys {', '.join(sorted(document)) or 'none'}"
        )
    key = config.statistics
    if not key and _FEATURE in features and not datasets:
        key = _FEATURE
    elif not key and len(datasets) == 1 and not features:
        key = next(iter(datasets))
    if not key:
        raise ConfigError(
            f"action.statistics must name one of the data sets in {config.statistics_file}: {keys}"
        )
    if key not in found:
        raise ConfigError(
            f"action.statistics must be one of the data sets in {config.statistics_file}, got {key!r}, "
            f"expected one of {keys}"
        )
    return key, found[key]


def _numbers(entry: Mapping[str, Any], name: str, key: str, config: ActionConfig) -> tuple[float, ...]:
    values = _one_each(entry, name, key, config)
    for value in values:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        # Compared before the conversion: an integer of JSON may be larger than any float. NaN fails, too.
        if not is_number or not -sys.float_info.max <= value <= sys.float_info.max:
            _refuse(config, key, f"{name} must hold finite numbers, got {value!r}")
    return tuple(float(value) for value in values)


def _mask(entry: Mapping[str, Any], key: str, config: ActionConfig) -> tuple[bool, ...]:
    """Which dimensions were normalised; all without a mask, as OpenVLA reads it."""
    if entry.get("mask") is None:
        return (True,) * len(config.names)
    values = _one_each(entry, "mask", key, config)
    for value in values:
        if not isinstance(value, bool):
            _refuse(config, key, f"mask must hold true or false, got {value!r}")
    return tuple(values)


def _one_each(entry: Mapping[str, Any], name: str, key: str, config: ActionConfig) -> list[Any]:
    values, count = entry.get(name), len(config.names)
    if values is None:
        _refuse(config, key, f"expected q01 and q99, got the keys {', '.join(sorted(entry)) or 'none'}")
    if not isinstance(values, list):
        _refuse(config, key, f"{name} must be a list, got {values!r}")
    if len(values) != count:
        _refuse(
            config,
            key,
            f"{name} has {len(values)} dimensions, action.names {count}: {', '.join(config.names)}",
        )
    return values


def _refuse(config: ActionConfig, key: str, text: str) -> NoReturn:
    raise ConfigError(f"action.statistics_file {config.statistics_file}: {key}: {text}")
