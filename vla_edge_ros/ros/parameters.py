# SPDX-License-Identifier: Apache-2.0
"""A node's parameters, declared from a configuration dataclass and read back into it.

Parameters are declared with dynamic typing, because a static double refuses ``33`` and ends the start-up
with a traceback; ``parameter_tree.coerce`` does the typing, and every problem becomes one ``ConfigError``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter

from vla_edge_ros.config import REPLACED_PARAMETERS, VlaConfig, check_fields, param
from vla_edge_ros.errors import ConfigError, EngineError, InstructionError, VlaEdgeError, WeightsError
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
    discovery_ms: float = param(
        3000.0, "no action before the node is this old: time to find other publishers of actions", low=0.0
    )
    image_transport: str = param(
        "auto",
        "raw: image; compressed: image/compressed, or image where that is compressed; auto: what is offered",
        choices=("auto", "raw", "compressed"),
    )

    def __post_init__(self) -> None:
        check_fields("", self)


def declare(node: Node, config_class: type) -> None:
    """Declare every leaf of ``config_class`` as a parameter of ``node``; nothing is checked yet."""
    given = _overrides(node)
    for leaf in leaves(config_class):
        value = given.get(leaf.name, leaf.default)
        descriptor = ParameterDescriptor(
            description=leaf.description,
            additional_constraints=leaf.constraints,
            dynamic_typing=True,
        )
        node.declare_parameter(
            leaf.name, list(value) if isinstance(value, tuple) else value, descriptor, ignore_override=True
        )


def _overrides(node: Node) -> dict[str, Any]:
    """What parameter files and arguments say, by name; other nodes' parameters too, under the key ``/**``.

    rclpy can declare them all by itself, but statically typed, and it fails on an empty list, whoever it is
    meant for: such a value has no type. Here it is an empty list.
    """
    given = node._parameter_overrides  # no public name for it in any distribution
    return {
        name: [] if parameter.type_ == Parameter.Type.NOT_SET else parameter.value
        for name, parameter in given.items()
    }


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

    Other unknown names are let pass: a file with the key ``/**`` also holds the parameters of other nodes.
    """
    known = [leaf.name for leaf in leaves(config_class)]
    sections = {name.split(".")[0] for name in known if "." in name}
    for name in _overrides(node):
        if advice := REPLACED_PARAMETERS.get(name):
            raise ConfigError(f"{name} is no parameter any more: {advice}")
        if "." in name and name.split(".")[0] in sections and name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ConfigError(f"{name} must be a parameter of this node, got an unknown name{hint}")


@contextmanager
def errors_name_parameters(config: VlaConfig) -> Iterator[None]:
    """A ``VlaEdgeError`` from here begins with the name of the parameter that it comes from.

    What reads a model folder knows the folder, and an engine its device; which parameter led there is known
    where the configuration is.
    """
    try:
        yield
    except VlaEdgeError as error:
        first_word = re.match(r"[\w.]*", str(error)).group()  # type: ignore[union-attr]  # matches anything
        if not (name := _cause(error, config)) or first_word in {leaf.name for leaf in leaves(VlaConfig)}:
            raise
        raise type(error)(f"{name}: {error}") from error


def _cause(error: VlaEdgeError, config: VlaConfig) -> str:
    if isinstance(error, WeightsError):
        return "model.path" if config.model.path else "model.preset"
    if isinstance(error, InstructionError):
        return "prompt.instruction"
    return "engine.name" if isinstance(error, EngineError) else ""


@dataclass(frozen=True, slots=True)
class LiveParameter:
    """One that may change at any time. ``check`` raises ``VlaEdgeError`` and changes nothing; what it has let
    pass, ``apply`` does.
    """

    check: Callable[[Any], None]
    apply: Callable[[Any], None]


class ParameterGate:
    """Decides on changes of parameters at run time, and lets accepted ones take effect.

    ``live``: those that may change at any time. The others are read at configuration and may change before
    it only. A set of several is accepted or refused as a whole, also by other callbacks of the node, so
    nothing takes effect before all of it is accepted.
    """

    def __init__(
        self,
        config_classes: Sequence[type],
        live: Mapping[str, LiveParameter],
        is_open: Callable[[], bool],
    ):
        self._leaves: dict[str, Leaf] = {leaf.name: leaf for c in config_classes for leaf in leaves(c)}
        self._live = live
        self._is_open = is_open

    def guard(self, node: Node) -> None:
        """Register with ``node``."""
        if hasattr(node, "add_post_set_parameters_callback"):
            node.add_on_set_parameters_callback(self.check)
            node.add_post_set_parameters_callback(self.apply)
        else:  # ROS 2 Humble: there is nothing behind the acceptance
            node.add_on_set_parameters_callback(self._check_and_apply)

    def check(self, parameters: Sequence[Parameter[Any]]) -> SetParametersResult:
        """Changes nothing."""
        try:
            for parameter in parameters:
                if leaf := self._leaves.get(parameter.name):
                    self._check(leaf, parameter.value)
        except VlaEdgeError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def apply(self, parameters: Sequence[Parameter[Any]]) -> None:
        """For a set that was accepted."""
        if self._is_open():
            return  # read at configuration
        for parameter in parameters:
            if parameter.name in self._live:
                self._live[parameter.name].apply(coerce(self._leaves[parameter.name], parameter.value))

    def _check(self, leaf: Leaf, value: Any) -> None:
        value = coerce(leaf, value)
        if leaf.name in self._live:
            self._live[leaf.name].check(value)
        elif not self._is_open():  # else checked together with the others at configuration
            raise ConfigError(f"{leaf.name} is read at configuration: clean up, set it, configure again")

    def _check_and_apply(self, parameters: Sequence[Parameter[Any]]) -> SetParametersResult:
        result = self.check(parameters)
        if result.successful:
            self.apply(parameters)
        return result
