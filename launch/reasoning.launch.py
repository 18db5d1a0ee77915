# SPDX-License-Identifier: Apache-2.0
"""The reasoner alone, for a camera of your own: ``image:=/camera/color/image_raw``."""

import os
import sys

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, LogInfo, OpaqueFunction, RegisterEventHandler
from launch.event_handlers import OnProcessExit
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from vla_edge_ros.ros import launch_choices as choices

FILE = "reasoning.launch.py"


def generate_launch_description():
    declared = [
        DeclareLaunchArgument(
            argument.name,
            default_value=argument.default,
            description=argument.description,
            choices=argument.choices or None,
        )
        for argument in choices.REASONING
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=start)])


def start(context):
    is_ours = choices.is_on_command_line(FILE, sys.argv)
    if is_ours:
        choices.refuse_unknown(FILE, context.argv, choices.REASONING)
    values = {
        argument.name: LaunchConfiguration(argument.name).perform(context) for argument in choices.REASONING
    }
    values["ros_namespace"] = context.launch_configurations.get("ros_namespace", "")
    plan = choices.plan_reasoning(values, os.environ, choices.run_check)
    reasoner = Node(
        package="vla_edge_ros",
        executable="reasoning_node",
        name="vla_reasoner",
        namespace=values["namespace"],
        parameters=[
            *plan.config_files,
            {
                "use_sim_time": values["use_sim_time"] == "true",
                "autostart": values["autostart"] == "true",
            },
        ],
        remappings=[("image", values["image"])],
        additional_env=plan.environment,
        output="screen",
        emulate_tty=True,
    )

    def on_exit(event, context):
        if is_ours and not context.is_shutdown:
            choices.refuse_death("reasoning_node", event.returncode)

    return [
        *(LogInfo(msg=note) for note in plan.notes),
        reasoner,
        RegisterEventHandler(OnProcessExit(target_action=reasoner, on_exit=on_exit)),
    ]
