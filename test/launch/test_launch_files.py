# SPDX-License-Identifier: Apache-2.0
"""The launch files: what they name exists; and, where launch is installed, what they would start."""

import ast
import importlib.util
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
FILES = sorted((REPOSITORY / "launch").glob("*.launch.py"))
NODE_NAMES = {"replay_node": "camera", "reasoning_node": "vla_reasoner", "demo": None}


def calls(path: Path, name: str) -> list[dict[str, ast.expr]]:
    """Keyword arguments of every call of ``name`` in the file, and its first positional one as ``""``."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == name:
            arguments = {keyword.arg: keyword.value for keyword in node.keywords}
            found.append({"": node.args[0] if node.args else None, **arguments})
    return found


def executables() -> dict[str, str]:
    """Console scripts that setup.py installs: name to module."""
    setup = (REPOSITORY / "setup.py").read_text(encoding="utf-8")
    return dict(re.findall(r'"(\w+) = \{PACKAGE\}\.([\w.]+):main"', setup))


def test_there_are_launch_files():
    assert [path.name for path in FILES] == ["reasoning.launch.py", "replay.launch.py"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_executable_is_installed_and_has_a_main(path):
    nodes = calls(path, "Node")
    assert nodes
    for node in nodes:
        module = executables()[node["executable"].value]
        source = (REPOSITORY / "vla_edge_ros" / Path(*module.split("."))).with_suffix(".py")
        assert "def main(" in source.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nodes_are_named_as_they_name_themselves(path):
    for node in calls(path, "Node"):
        name = node["name"].value if "name" in node else None
        assert name == NODE_NAMES[node["executable"].value]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_default_parameter_file_is_shipped(path):
    text = path.read_text(encoding="utf-8")
    names = re.findall(r'\[share, "config", "([\w.]+)"\]', text)
    assert names and all((REPOSITORY / "config" / name).is_file() for name in names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_argument_is_described_and_every_configuration_is_declared(path):
    declared = calls(path, "DeclareLaunchArgument")
    assert all(argument["description"].value for argument in declared)
    used = {call[""].value for call in calls(path, "LaunchConfiguration")}
    assert used == {argument[""].value for argument in declared}


def test_parameters_of_the_camera_are_its_parameters():
    from vla_edge_ros.replay.config import ReplayConfig
    from vla_edge_ros.ros.parameter_tree import KINDS, leaves

    known = {leaf.name: leaf for leaf in leaves(ReplayConfig)}
    tree = ast.parse((REPOSITORY / "launch" / "replay.launch.py").read_text(encoding="utf-8"))
    passed = next(
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "replay_parameters"
    )
    for key, value in zip(passed.keys, passed.values, strict=True):
        kind = next(keyword.value.id for keyword in value.keywords if keyword.arg == "value_type")
        assert known[key.value].kind == {k.__name__: name for k, name in KINDS.items()}[kind]


def expand(name: str, **arguments: str):
    """The processes that ``ros2 launch`` would start: executable to its command line."""
    if importlib.util.find_spec("launch_ros") is None:
        pytest.skip("launch_ros is not installed: it comes with a ROS distribution only")
    from ament_index_python.packages import PackageNotFoundError, get_package_prefix
    from launch import LaunchContext, LaunchDescription
    from launch.launch_description_sources import PythonLaunchDescriptionSource
    from launch_ros.actions import Node

    try:
        get_package_prefix("vla_edge_ros")
    except PackageNotFoundError:
        pytest.skip("vla_edge_ros is not built and sourced")
    context = LaunchContext()
    context.launch_configurations.update(arguments)
    context.extend_locals({"ros_specific_arguments": {"name": "", "ns": ""}})  # as Node.execute does
    description = PythonLaunchDescriptionSource(str(REPOSITORY / "launch" / name)).get_launch_description(
        context
    )
    started = {}

    def visit(entities) -> None:
        for entity in entities:
            if isinstance(entity, LaunchDescription):
                visit(entity.entities)
            elif entity.condition is not None and not entity.condition.evaluate(context):
                continue
            elif isinstance(entity, Node):
                entity._perform_substitutions(context)
                started[entity.node_executable] = [
                    "".join(part.perform(context) for part in words) for words in entity.cmd
                ]
            elif not hasattr(entity, "event_handler"):
                entity.execute(context)

    visit(description.entities)
    return started


def test_two_processes_by_default():
    assert set(expand("replay.launch.py")) == {"replay_node", "reasoning_node"}


def test_one_process_where_asked_for():
    started = expand("replay.launch.py", one_process="true", source="1e3")
    assert set(started) == {"demo"}
    assert started["demo"][started["demo"].index("--source") + 1] == "1e3"


@pytest.mark.parametrize("name", [path.name for path in FILES])
def test_an_argument_that_is_no_boolean_is_refused(name):
    argument = "loop" if name.startswith("replay") else "autostart"
    with pytest.raises(RuntimeError, match="not valid"):
        expand(name, **{argument: "1"})


def test_a_users_camera_is_remapped():
    started = expand("reasoning.launch.py", image="/camera/image_raw")
    assert "image:=/camera/image_raw" in started["reasoning_node"]
