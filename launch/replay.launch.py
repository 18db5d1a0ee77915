# SPDX-License-Identifier: Apache-2.0
"""Footage as a camera, and the reasoner, in two processes or in one."""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, EmitEvent, RegisterEventHandler, SetEnvironmentVariable
from launch.conditions import IfCondition, UnlessCondition
from launch.event_handlers import OnProcessExit
from launch.events import Shutdown
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare


def generate_launch_description():
    namespace = LaunchConfiguration("namespace")
    config = LaunchConfiguration("config")
    one_process = LaunchConfiguration("one_process")
    source, rate = LaunchConfiguration("source"), LaunchConfiguration("rate")
    # Typed here, since a launch argument is text: a source named 1e3 stays a name, a rate of 60 a double.
    replay_parameters = {
        "source": ParameterValue(source, value_type=str),
        "rate_hz": ParameterValue(rate, value_type=float),
        "loop": ParameterValue(LaunchConfiguration("loop"), value_type=bool),
        "width": ParameterValue(LaunchConfiguration("width"), value_type=int),
        "height": ParameterValue(LaunchConfiguration("height"), value_type=int),
    }
    common = {"package": "vla_edge_ros", "namespace": namespace, "output": "screen", "emulate_tty": True}
    camera = Node(
        executable="replay_node",
        name="camera",
        parameters=[replay_parameters],
        condition=UnlessCondition(one_process),
        **common,
    )
    reasoner = Node(
        executable="reasoning_node",
        name="vla_reasoner",
        parameters=[config],
        condition=UnlessCondition(one_process),
        **common,
    )
    both = Node(
        executable="demo",
        arguments=[
            "--config",
            config,
            "--source",
            source,
            "--rate",
            rate,
        ],
        parameters=[replay_parameters],
        condition=IfCondition(one_process),
        **common,
    )
    return LaunchDescription(
        [
            *_arguments(),
            SetEnvironmentVariable("FASTDDS_BUILTIN_TRANSPORTS", LaunchConfiguration("transport")),
            camera,
            reasoner,
            both,
            # The footage is over (or cannot be read): nothing is left to do.
            RegisterEventHandler(
                OnProcessExit(
                    target_action=camera, on_exit=[EmitEvent(event=Shutdown(reason="the replay ended"))]
                ),
                condition=UnlessCondition(one_process),
            ),
        ]
    )


def _arguments():
    share = FindPackageShare("vla_edge_ros")
    true_or_false = ["true", "false"]
    return [
        DeclareLaunchArgument(
            "source", default_value="synthetic", description="video, image folder, rosbag2, or 'synthetic'"
        ),
        DeclareLaunchArgument("rate", default_value="60.0", description="images a second"),
        DeclareLaunchArgument(
            "loop", default_value="true", choices=true_or_false, description="begin again at the end"
        ),
        DeclareLaunchArgument("width", default_value="128", description="published width; 0: the source's"),
        DeclareLaunchArgument("height", default_value="64", description="published height; 0: the source's"),
        DeclareLaunchArgument(
            "config",
            default_value=PathJoinSubstitution([share, "config", "default.yaml"]),
            description="parameter file of the reasoner; tiny.yaml beside it runs on any machine",
        ),
        DeclareLaunchArgument("namespace", default_value="vla", description="namespace of both nodes"),
        DeclareLaunchArgument(
            "one_process",
            default_value="false",
            choices=true_or_false,
            description="both nodes in one process, with a live line on the terminal",
        ),
        DeclareLaunchArgument(
            "transport",
            default_value="DEFAULT",
            choices=["DEFAULT", "LARGE_DATA"],
            description="Fast DDS transports; LARGE_DATA where images are larger than the default size",
        ),
    ]
