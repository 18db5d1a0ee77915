# SPDX-License-Identifier: Apache-2.0
"""The simulated robot and the reasoner that drives it, in two processes."""

import os
import sys

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, EmitEvent, LogInfo, OpaqueFunction, RegisterEventHandler
from launch.event_handlers import OnProcessExit
from launch.events import Shutdown
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from vla_edge_ros.ros import launch_choices as choices

FILE = "tabletop.launch.py"


def generate_launch_description():
    declared = [
        DeclareLaunchArgument(
            argument.name,
            default_value=argument.default,
            description=argument.description,
            choices=argument.choices or None,
        )
        for argument in choices.TABLETOP
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=start)])


def start(context):
    is_ours = choices.is_on_command_line(FILE, sys.argv)
    if is_ours:
        choices.refuse_unknown(FILE, context.argv, choices.TABLETOP)
    values = {
        argument.name: LaunchConfiguration(argument.name).perform(context) for argument in choices.TABLETOP
    }
    plan = choices.plan_tabletop(values, os.environ)
    common = {
        "package": "vla_edge_ros",
        "namespace": values["namespace"],
        "additional_env": plan.environment,
        "output": "screen",
        "emulate_tty": True,
    }
    parameters = [*plan.config_files, plan.parameters] if plan.parameters else plan.config_files
    nodes = [
        Node(executable="tabletop", name="tabletop", ros_arguments=plan.camera, **common),
        Node(executable="reasoning_node", name="vla_reasoner", parameters=parameters, **common),
    ]

    def on_exit(event, context):
        """The last episode is over, or one of two has died: nothing is left to do for the other."""
        if context.is_shutdown:
            return None
        if is_ours:
            choices.refuse_death(event.process_name, event.returncode)
        return EmitEvent(event=Shutdown(reason=f"{event.process_name} ended"))

    return [
        *(LogInfo(msg=note) for note in plan.notes),
        *nodes,
        *(RegisterEventHandler(OnProcessExit(target_action=node, on_exit=on_exit)) for node in nodes),
    ]
