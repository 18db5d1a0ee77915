# SPDX-License-Identifier: Apache-2.0
"""Parameters that a node reads once: a later change is refused, since it would change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rcl_interfaces.msg import SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter

from vla_edge_ros.errors import ConfigError
from vla_edge_ros.ros.parameter_tree import coerce, leaves


class FixedParameters:
    """For ``add_on_set_parameters_callback`` of a ``node`` that has read its ``config_class``.

    The value that stands may be set again (``ros2 param load`` of a dump); other parameters are not its
    business.
    """

    def __init__(self, node: Node, config_class: type):
        self._node = node
        self._leaves = {leaf.name: leaf for leaf in leaves(config_class)}

    def __call__(self, parameters: Sequence[Parameter[Any]]) -> SetParametersResult:
        try:
            for parameter in parameters:
                self._refuse_change(parameter.name, parameter.value)
        except ConfigError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def _refuse_change(self, name: str, value: Any) -> None:
        leaf = self._leaves.get(name)
        if leaf is not None and coerce(leaf, value) != coerce(leaf, self._node.get_parameter(name).value):
            raise ConfigError(
                f"{name} is read when {self._node.get_name()} starts: start it anew with {value!r}"
            )
