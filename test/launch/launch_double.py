# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for what the launch files use of `launch`, which only a ROS distribution has.

They record how they were made; ``LaunchConfiguration`` looks up, and nothing else acts.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any


class Recorded:
    """Any action: its arguments, by position and by name."""

    def __init__(self, *positional: Any, **named: Any):
        self.positional = positional
        self.named = named


class LaunchDescription(Recorded): ...


class DeclareLaunchArgument(Recorded): ...


class LogInfo(Recorded): ...


class RegisterEventHandler(Recorded): ...


class OnProcessExit(Recorded): ...


class EmitEvent(Recorded): ...


class Shutdown(Recorded): ...


class Node(Recorded): ...


class OpaqueFunction(Recorded): ...


class LaunchConfiguration(Recorded):
    def perform(self, context: SimpleNamespace) -> str:
        return context.launch_configurations[self.positional[0]]


def modules() -> dict[str, ModuleType]:
    """For ``sys.modules``, whatever is imported from where."""
    here = sys.modules[__name__]
    names = ("launch", "launch.actions", "launch.event_handlers", "launch.events", "launch.substitutions")
    return dict.fromkeys((*names, "launch_ros", "launch_ros.actions"), here)


def context(arguments: list[DeclareLaunchArgument], given: dict[str, str]) -> SimpleNamespace:
    """With the defaults of ``arguments``, then ``given``."""
    values = {argument.positional[0]: argument.named["default_value"] for argument in arguments}
    return SimpleNamespace(
        launch_configurations={**values, **given},
        argv=[f"{name}:={value}" for name, value in given.items()],
        is_shutdown=False,
    )
