# SPDX-License-Identifier: Apache-2.0
"""A node's parameters, declared from a configuration dataclass and read back into it.

Parameters are declared with dynamic typing, because a static double refuses ``33`` and ends the start-up
with a traceback; ``parameter_tree.coerce`` does the typing, and every problem becomes one ``ConfigError``.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter

from vla_edge_ros.config import REPLACED_PARAMETERS, check_fields, param
from vla_edge_ros.errors import ConfigError, VlaEdgeError
from vla_edge_ros.ros.parameter_tree import Leaf, build, coerce, leaves

C = TypeVar("C")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """What concerns the ROS node, not the runtime behind it."""

    autostart: bool = param(True, "configure and activate at start; false: wait for a lifecycle manager")
    max_stamp_lead_ms: float = param(
        50.0, "a camera stamp further in the future is replaced by the time of receipt", low=0.0
    )
    camera_timeout_ms: float = param(1000.0, "no frame for this long is an ERROR in the diagnostics", low=1.0)

    def __post_init__(self) -> None:
        check_fields("node", self)


def declare(node: Node, config_class: type) -> None:
    """Declare every leaf of ``config_class`` as a parameter of ``node``; nothing is checked yet."""
    for leaf in leaves(config_class):
        value, ignore_override = leaf.default, False
        if node.has_parameter(leaf.name):  # from its override at the node's creation, statically typed
            value, ignore_override = node.get_parameter(leaf.name).value, True
            node.undeclare_parameter(leaf.name)
        descriptor = ParameterDescriptor(
            description=leaf.description,
            additional_constraints=leaf.constraints,
            dynamic_typing=True,
        )
        node.declare_parameter(
            leaf.name, list(value) if isinstance(value, tuple) else value, descriptor, ignore_override
        )


def read(node: Node, config_class: type[C]) -> C:
    """The declared parameters as a validated ``config_class``; ``ConfigError`` names what cannot work."""
    _refuse_misspelt(node, config_class)
    given = {leaf.name: node.get_parameter(leaf.name).value for leaf in leaves(config_class)}
    return build(config_class, {name: value for name, value in given.items() if value is not None})


def declare_config(node: Node, config_class: type[C]) -> C:
    """``declare`` and ``read`` in one."""
    declare(node, config_class)
    return read(node, config_class)


def _refuse_misspelt(node: Node, config_class: type) -> None:
    """A parameter of one of our sections that no leaf knows is a spelling mistake, and would change nothing.

    Found where the node declares its parameters from overrides. Other unknown names are let pass: a file
    with the key ``/**`` also holds the parameters of other nodes.
    """
    known = [leaf.name for leaf in leaves(config_class)]
    for section in dict.fromkeys(name.split(".")[0] for name in known if "." in name):
        for tail in node.get_parameters_by_prefix(section):
            name = f"{section}.{tail}"
            if advice := REPLACED_PARAMETERS.get(name):
                raise ConfigError(f"{name} is no parameter any more: {advice}")
            if name not in known:
                close = difflib.get_close_matches(name, known, 1)
                hint = f"; did you mean {close[0]}?" if close else ""
                raise ConfigError(f"{name} must be a parameter of this node, got an unknown name{hint}")


class ParameterGate:
    """Decides on changes of parameters at run time; register with ``add_on_set_parameters_callback``.

    ``live``: what to call with the new value of a parameter that may change at any time. The others are
    read at configuration and may change before it only.
    """

    def __init__(
        self,
        config_classes: Sequence[type],
        live: Mapping[str, Callable[[Any], None]],
        is_open: Callable[[], bool],
    ):
        self._leaves: dict[str, Leaf] = {leaf.name: leaf for c in config_classes for leaf in leaves(c)}
        self._live = live
        self._is_open = is_open

    def __call__(self, parameters: Sequence[Parameter[Any]]) -> SetParametersResult:
        try:
            for parameter in parameters:
                if leaf := self._leaves.get(parameter.name):
                    self._change(leaf, parameter.value)
        except VlaEdgeError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def _change(self, leaf: Leaf, value: Any) -> None:
        value = coerce(leaf, value)
        if self._is_open():
            return  # checked together with the others at configuration
        if leaf.name not in self._live:
            raise ConfigError(f"{leaf.name} is read at configuration: clean up, set it, configure again")
        self._live[leaf.name](value)
