# SPDX-License-Identifier: Apache-2.0
"""Which nodes a ROS parameter file speaks to; by rcl's rules, which pass over a wrong key without a word."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from vla_edge_ros.errors import ConfigError

PARAMETERS = "ros__parameters"


def check_keys(path: str | Path, nodes: Sequence[str]) -> None:
    """``ConfigError`` where the file cannot be read, or none of its keys names one of ``nodes``.

    ``nodes``: fully qualified names, such as ``/vla/camera``.
    """
    keys = [key for key, _ in sections(path)]
    if not any(matches(key, node) for key in keys for node in nodes):
        found = ", ".join(keys) or f"none with {PARAMETERS} below it"
        raise ConfigError(f"{path} must have the key /** or {' or '.join(nodes)}, got {found}")


def parameters_for(path: str | Path, node: str) -> dict[str, Any]:
    """What the file gives ``node``, by dotted name. Raises ``ConfigError`` as ``check_keys`` does."""
    check_keys(path, [node])
    values: dict[str, Any] = {}
    for key, parameters in sections(path):
        if matches(key, node):
            values |= dict(_flat(parameters, ""))
    return values


def sections(path: str | Path) -> list[tuple[str, Mapping[str, Any]]]:
    """Key (nested ones joined, as rcl does) and parameters of every node in the file."""
    try:
        document = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{path} must be a parameter file, got: {reason}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} must be a parameter file in YAML, got: {_one_line(error)}") from error
    if not isinstance(document, Mapping):
        raise ConfigError(f"{path} must be a parameter file, a map of node names, got {document!r:.60}")
    return list(_nodes(document, ""))


def matches(key: str, node: str) -> bool:
    """Whether a file's ``key`` speaks to ``node``. ``*`` stands for one part of a name, ``**`` for any."""
    pattern = "".join(
        "(/[^/]+)*" if part == "**" else "/[^/]+" if part == "*" else "/" + re.escape(part)
        for part in key.strip("/").split("/")
    )
    return re.fullmatch(pattern, node) is not None


def _nodes(document: Mapping[Any, Any], prefix: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, value in document.items():
        key = f"{prefix.rstrip('/')}/{str(name).lstrip('/')}" if prefix else str(name)
        if not isinstance(value, Mapping):
            continue
        if isinstance(value.get(PARAMETERS), Mapping):
            yield key, value[PARAMETERS]
        yield from _nodes({k: v for k, v in value.items() if k != PARAMETERS}, key)


def _flat(parameters: Mapping[Any, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in parameters.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
