# SPDX-License-Identifier: Apache-2.0
"""The reasoner alone, for a camera of your own: ``image:=/camera/color/image_raw``."""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare


def generate_launch_description():
    share = FindPackageShare("vla_edge_ros")
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "image", default_value="image", description="image topic, relative ones in the namespace"
            ),
            DeclareLaunchArgument("namespace", default_value="vla", description="namespace of the topics"),
            DeclareLaunchArgument(
                "config",
                default_value=PathJoinSubstitution([share, "config", "default.yaml"]),
                description="parameter file of the reasoner",
            ),
            DeclareLaunchArgument(
                "use_sim_time",
                default_value="false",
                choices=["true", "false"],
                description="take time from /clock, as when a bag is played with --clock",
            ),
            DeclareLaunchArgument(
                "autostart",
                default_value="true",
                choices=["true", "false"],
                description="activate at start; false: a lifecycle manager does it",
            ),
            Node(
                package="vla_edge_ros",
                executable="reasoning_node",
                name="vla_reasoner",
                namespace=LaunchConfiguration("namespace"),
                parameters=[
                    LaunchConfiguration("config"),
                    {
                        # Typed here, since a launch argument is text.
                        "use_sim_time": ParameterValue(LaunchConfiguration("use_sim_time"), value_type=bool),
                        "autostart": ParameterValue(LaunchConfiguration("autostart"), value_type=bool),
                    },
                ],
                remappings=[("image", LaunchConfiguration("image"))],
                output="screen",
                emulate_tty=True,
            ),
        ]
    )
