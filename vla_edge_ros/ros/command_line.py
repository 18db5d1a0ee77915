# SPDX-License-Identifier: Apache-2.0
"""What stands on a node's command line, read before rcl reads it: rcl passes over what nobody knows."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from vla_edge_ros.errors import ConfigError
from vla_edge_ros.ros import parameter_file
from vla_edge_ros.ros.parameter_tree import Leaf, leaves

ROS_ARGUMENTS, END_OF_ROS_ARGUMENTS = "--ros-args", "--"
# Of rclpy's own.
RCLPY_PARAMETERS = ("use_sim_time", "start_type_description_service")
RCLPY_PREFIXES = ("qos_overrides.",)


class CommandLine:
    """``arguments``: without the program's name. ``config_classes``: what this process has parameters of."""

    def __init__(self, arguments: Sequence[str], config_classes: Sequence[type]):
        self._leaves: dict[str, Leaf] = {leaf.name: leaf for c in config_classes for leaf in leaves(c)}
        self._others: list[str] = []
        self._files: list[str] = []
        self._rules: list[str] = []
        self._split(list(arguments))

    def refuse_unknown(self) -> None:
        """``ConfigError`` for an option, or a parameter by ``-p`` for any node, that would change nothing."""
        if self._others:
            raise ConfigError(
                f"a command line must hold parameters, as in {ROS_ARGUMENTS} -p "
                f"{next(iter(self._leaves), RCLPY_PARAMETERS[0])}:=VALUE, got {self._others[0]!r}"
            )
        for name, _ in self._for_any_node():
            self._refuse_unknown_name(name)

    def refuse_strangers_files(self, nodes: Sequence[str]) -> None:
        """``ConfigError`` for a parameter file without a key for any of ``nodes`` (fully qualified names),
        and for an unknown name below the full name of one: that is meant for nobody else.
        """
        for path in self._files:
            parameter_file.check_keys(path, nodes)
            for key, parameters in parameter_file.sections(path):
                if "*" not in key and any(parameter_file.matches(key, node) for node in nodes):
                    for name in parameters:
                        self._refuse_unknown_name(str(name), f"{path}: ")

    def texts(self, config_class: type) -> dict[str, str]:
        """Text parameters of ``config_class`` given by ``-p``, as they were typed.

        YAML makes a number of a file named ``1e3``. What is in quotes is left to YAML.
        """
        wanted = {leaf.name for leaf in leaves(config_class) if leaf.kind == "string"}
        return {
            name: text
            for name, text in self._for_any_node()
            if name in wanted and text and text[0] not in "'\"!"
        }

    def _split(self, arguments: list[str]) -> None:
        in_ros = False
        while arguments:
            argument = arguments.pop(0)
            if argument == ROS_ARGUMENTS:
                in_ros = True
            elif not in_ros:
                self._others.append(argument)
            elif argument == END_OF_ROS_ARGUMENTS:
                in_ros = False
            elif argument in ("-p", "--param") and arguments:
                self._rules.append(arguments.pop(0))
            elif argument == "--params-file" and arguments:
                self._files.append(arguments.pop(0))

    def _for_any_node(self) -> list[tuple[str, str]]:
        """Name and text of the rules ``name:=text``; those of one node, ``node:name:=text``, left out."""
        split = [rule.partition(":=") for rule in self._rules]
        return [(name, text) for name, _, text in split if ":" not in name]

    def _refuse_unknown_name(self, name: str, where: str = "") -> None:
        sections = {known.split(".")[0] for known in self._leaves if "." in known}
        if name in self._leaves or name in RCLPY_PARAMETERS or name.startswith(RCLPY_PREFIXES):
            return
        if where and name in sections:  # a file nests: what is below is checked by who reads it
            return
        close = difflib.get_close_matches(name, self._leaves, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise ConfigError(f"{where}{name} must be a parameter of this node, got an unknown name{hint}")
