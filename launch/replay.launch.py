# SPDX-License-Identifier: Apache-2.0
"""Footage as a camera, and the reasoner, in two processes or in one."""

import os
import sys

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, EmitEvent, LogInfo, OpaqueFunction, RegisterEventHandler
from launch.event_handlers import OnProcessExit
from launch.events import Shutdown
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from vla_edge_ros.ros import launch_choices as choices

FILE = "replay.launch.py"


def generate_launch_description():
    declared = [
        DeclareLaunchArgument(
            argument.name,
            default_value=argument.default,
            description=argument.description,
            choices=argument.choices or None,
        )
        for argument in choices.REPLAY
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=start)])


def start(context):
    is_ours = choices.is_on_command_line(FILE, sys.argv)
    if is_ours:
        choices.refuse_unknown(FILE, context.argv, choices.REPLAY)
    values = {
        argument.name: LaunchConfiguration(argument.name).perform(context) for argument in choices.REPLAY
    }
    values["ros_namespace"] = context.launch_configurations.get("ros_namespace", "")
    plan = choices.plan_replay(values, os.environ, choices.run_check)
    nodes = one_process(plan, values) if values["one_process"] == "true" else two_processes(plan, values)

    def on_exit(event, context):
        """The footage is over, or one of two has died: nothing is left to do for the other."""
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


def two_processes(plan, values):
    common = common_arguments(plan, values)
    return [
        Node(executable="replay_node", name="camera", ros_arguments=plan.camera, **common),
        Node(executable="reasoning_node", name="vla_reasoner", parameters=plan.config_files, **common),
    ]


def one_process(plan, values):
    first, *others = plan.config_files
    both = Node(
        executable="demo",
        arguments=["--config", first],
        ros_arguments=plan.camera,
        parameters=others,
        **common_arguments(plan, values),
    )
    return [both]


def common_arguments(plan, values):
    return {
        "package": "vla_edge_ros",
        "namespace": values["namespace"],
        "additional_env": plan.environment,
        "output": "screen",
        "emulate_tty": True,
    }
