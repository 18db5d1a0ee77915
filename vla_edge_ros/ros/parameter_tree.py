# SPDX-License-Identifier: Apache-2.0
"""The configuration dataclasses seen as a flat list of named parameters; no ROS in here.

``leaves`` walks a tree such as ``VlaConfig`` and gives one ``Leaf`` a parameter (``timing.deadline_ms``),
with all that descriptors and the documentation table need. ``build`` is the way back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar

from vla_edge_ros.errors import ConfigError

C = TypeVar("C")

KINDS = {bool: "bool", int: "integer", float: "double", str: "string"}


@dataclass(frozen=True, slots=True)
class Leaf:
    """One parameter: its dotted name and what its dataclass field says about it."""

    name: str
    default: Any
    description: str
    low: float | None
    high: float | None
    choices: tuple[str, ...]

    @property
    def kind(self) -> str:
        """The type in ROS's words; a list's ends in ``[]``."""
        if isinstance(self.default, tuple):
            return KINDS[self.item_type] + "[]"
        return KINDS[self.item_type]

    @property
    def item_type(self) -> type:
        """The Python type of the value, or of a list's items (no list is empty by default)."""
        return type(self.default[0]) if isinstance(self.default, tuple) else type(self.default)

    @property
    def constraints(self) -> str:
        """Choices or range in words; empty where any value of the type will do."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        bounds = [f"at least {self.low:g}"] if self.low is not None else []
        bounds += [f"at most {self.high:g}"] if self.high is not None else []
        return ", ".join(bounds)


def leaves(config_class: type, prefix: str = "") -> Iterator[Leaf]:
    """The parameters of a dataclass tree, in the order of its fields."""
    for item in fields(config_class):
        default = item.default_factory() if callable(item.default_factory) else item.default
        if is_dataclass(default):
            yield from leaves(type(default), f"{prefix}{item.name}.")
        else:
            yield Leaf(f"{prefix}{item.name}", default, **item.metadata)


def build(config_class: type[C], values: Mapping[str, Any], prefix: str = "") -> C:
    """An instance from values by dotted name; what is missing keeps its default. Raises ``ConfigError``."""
    arguments: dict[str, Any] = {}
    for item in fields(config_class):  # type: ignore[arg-type]
        default = item.default_factory() if callable(item.default_factory) else item.default
        name = f"{prefix}{item.name}"
        if is_dataclass(default):
            arguments[item.name] = build(type(default), values, f"{name}.")
        elif name in values:
            arguments[item.name] = coerce(Leaf(name, default, **item.metadata), values[name])
    return config_class(**arguments)


def coerce(leaf: Leaf, value: Any) -> Any:
    """``value`` in the parameter's type, where nothing is lost: YAML reads 33 as an integer, 1e3 as a double.

    Raises ``ConfigError`` that says what to write instead.
    """
    if not isinstance(leaf.default, tuple):
        return _coerce_item(leaf, value)
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise ConfigError(f"{leaf.name} must be a list ({leaf.kind}), got {value!r}")
    # A ROS parameter file cannot hold an empty list; a list of one empty string is how users write one.
    items = [item for item in value if item != ""]
    return tuple(_coerce_item(leaf, item) for item in items)


def _coerce_item(leaf: Leaf, value: Any) -> Any:
    kind = leaf.item_type
    if type(value) is kind:
        return value
    if kind is float and type(value) is int:
        return float(value)
    if kind is int and type(value) is float and value.is_integer():
        return int(value)
    advice = " (put it in quotes)" if kind is str and isinstance(value, bool | int | float) else ""
    raise ConfigError(f"{leaf.name} must be of type {KINDS[kind]}, got {value!r}{advice}")
