# SPDX-License-Identifier: Apache-2.0
"""The launch files, run with stand-ins for `launch`, and with `launch` itself where that is installed."""

import importlib.util
import re
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from vla_edge_ros.errors import ConfigError, VlaEdgeError
from vla_edge_ros.ros import launch_choices

REPOSITORY = Path(__file__).resolve().parents[2]
FILES = sorted((REPOSITORY / "launch").glob("*.launch.py"))
NODE_NAMES = {
    "replay_node": "camera",
    "reasoning_node": "vla_reasoner",
    "tabletop": "tabletop",
    "demo": None,
}

specification = importlib.util.spec_from_file_location(
    "launch_double", Path(__file__).with_name("launch_double.py")
)
launch_double = importlib.util.module_from_spec(specification)
sys.modules["launch_double"] = launch_double
specification.loader.exec_module(launch_double)


def executables() -> dict[str, str]:
    """Console scripts that setup.py installs: name to module."""
    setup = (REPOSITORY / "setup.py").read_text(encoding="utf-8")
    own = dict(re.findall(r'"(\w+) = \{PACKAGE\}\.([\w.]+):main"', setup))
    through = re.findall(r'"(\w+) = \{PACKAGE\}\.executables:(\w+)"', setup)
    return own | {name: f"ros.{module}" for name, module in through}


@pytest.fixture
def run(monkeypatch):
    """Run a launch file with stand-ins: its declared arguments, and the actions that it would take."""
    for name, module in launch_double.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(launch_choices, "run_check", lambda: ("cuda", ""))
    monkeypatch.setattr(launch_choices, "trained_model", lambda name: Path("/models", name))
    monkeypatch.delenv(launch_choices.TRANSPORT_VARIABLE, raising=False)

    def run_file(name: str, command_line=(), **given: str):
        monkeypatch.setattr(sys, "argv", ["ros2", "launch", *(command_line or [name])])
        description = runpy.run_path(str(REPOSITORY / "launch" / name))["generate_launch_description"]()
        *declared, function = description.positional[0]
        actions = function.named["function"](launch_double.context(declared, given))
        return declared, actions

    return run_file


def nodes(actions) -> dict[str, dict]:
    return {a.named["executable"]: a.named for a in actions if isinstance(a, launch_double.Node)}


def exit_handlers(actions) -> list:
    handlers = [a.positional[0] for a in actions if isinstance(a, launch_double.RegisterEventHandler)]
    return [handler.named["on_exit"] for handler in handlers]


def ended(exit_code: int, name: str = "replay_node-1") -> SimpleNamespace:
    return SimpleNamespace(returncode=exit_code, process_name=name)


def test_there_are_launch_files():
    assert [path.name for path in FILES] == [
        "reasoning.launch.py",
        "replay.launch.py",
        "tabletop.launch.py",
    ]


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("reasoning.launch.py", {}, {"reasoning_node"}),
        ("replay.launch.py", {}, {"replay_node", "reasoning_node"}),
        ("replay.launch.py", {"one_process": "true"}, {"demo"}),
        ("tabletop.launch.py", {}, {"tabletop", "reasoning_node"}),
    ],
)
def test_every_node_is_an_executable_of_ours_under_its_own_name(run, name, given, expected):
    started = nodes(run(name, **given)[1])
    assert set(started) == expected
    for executable, node in started.items():
        module = executables()[executable]
        source = (REPOSITORY / "vla_edge_ros" / Path(*module.split("."))).with_suffix(".py")
        assert "def main(" in source.read_text(encoding="utf-8")
        assert node["package"] == "vla_edge_ros" and node["namespace"] == "vla"
        assert node.get("name") == NODE_NAMES[executable]
        assert launch_choices.LAUNCH_PID in node["additional_env"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_argument_is_described_and_declared_once(run, path):
    declared, _ = run(path.name)
    names = [argument.positional[0] for argument in declared]
    assert len(names) == len(set(names)) and {"config", "transport", "namespace"} <= set(names)
    assert all(argument.named["description"] for argument in declared)
    for argument in declared:
        choices = argument.named["choices"]
        assert choices is None or argument.named["default_value"] in choices


def test_the_cameras_arguments_and_the_config_reach_both_arrangements(run, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("/**:\n  ros__parameters: {model.path: /m}\n")
    given = {"source": "1e3", "bag_topic": "/a", "config": str(path)}
    two = nodes(run("replay.launch.py", **given)[1])
    one = nodes(run("replay.launch.py", one_process="true", **given)[1])["demo"]
    assert two["replay_node"]["ros_arguments"] == one["ros_arguments"]
    assert {"source:='1e3'", "bag_topic:='/a'"} <= set(one["ros_arguments"])
    assert two["reasoning_node"]["parameters"] == [str(path)]
    assert (one["arguments"], one["parameters"]) == (["--config", str(path)], [])


def test_a_file_that_is_laid_over_the_tiny_model_reaches_both_arrangements(run, tmp_path, monkeypatch):
    monkeypatch.setattr(launch_choices, "run_check", lambda: ("numpy", "no driver"))
    path = tmp_path / "mine.yaml"
    path.write_text("/**:\n  ros__parameters: {timing.period_ms: 50.0}\n")
    _, actions = run("replay.launch.py", config=str(path))
    tiny, own = nodes(actions)["reasoning_node"]["parameters"]
    assert tiny.endswith("config/tiny.yaml") and own == str(path)
    assert any("no driver" in a.named["msg"] for a in actions if isinstance(a, launch_double.LogInfo))
    one = nodes(run("replay.launch.py", one_process="true", config=str(path))[1])["demo"]
    assert (one["arguments"], one["parameters"]) == (["--config", tiny], [own])


def test_a_users_camera_is_remapped_and_flags_are_typed(run):
    _, actions = run("reasoning.launch.py", image="/camera/image_raw", autostart="false")
    node = nodes(actions)["reasoning_node"]
    assert node["remappings"] == [("image", "/camera/image_raw")]
    assert node["parameters"][-1] == {"use_sim_time": False, "autostart": False}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_transport_is_the_nodes_own_environment(run, path):
    name = launch_choices.TRANSPORT_VARIABLE
    for node in nodes(run(path.name)[1]).values():
        assert name not in node["additional_env"]
    for node in nodes(run(path.name, transport="LARGE_DATA")[1]).values():
        assert node["additional_env"][name] == "LARGE_DATA"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_an_unknown_argument_is_refused_where_the_user_gave_it(run, path):
    with pytest.raises(ConfigError, match=f"nonsense must be an argument of {path.name}"):
        run(path.name, nonsense="1")
    run(path.name, command_line=["robot", "bringup.launch.py"], nonsense="1")  # an including file's own


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_node_that_dies_is_an_error_of_the_launch(run, path):
    for handler in exit_handlers(run(path.name)[1]):
        with pytest.raises(VlaEdgeError, match="exit code 1"):
            handler(ended(1), SimpleNamespace(is_shutdown=False))
        assert handler(ended(1), SimpleNamespace(is_shutdown=True)) is None


def test_the_end_of_the_footage_ends_the_launch(run):
    for given in ({}, {"one_process": "true"}):
        _, actions = run("replay.launch.py", **given)
        assert len(exit_handlers(actions)) == len(nodes(actions))
        action = exit_handlers(actions)[0](ended(0), SimpleNamespace(is_shutdown=False))
        assert "ended" in action.named["event"].named["reason"]


def test_the_robots_arguments_reach_it_and_the_trained_weights_the_reasoner(run):
    started = nodes(run("tabletop.launch.py", tasks="[recall]", delays="[280]", camera_hz="30")[1])
    assert {"tasks:=[recall]", "delays:=[280]", "camera_hz:=30"} <= set(started["tabletop"]["ros_arguments"])
    file, own = started["reasoning_node"]["parameters"]
    assert file.endswith("config/tabletop.yaml") and own == {"model.path": "/models/tabletop-1024"}
    given = nodes(run("tabletop.launch.py", config="tabletop.yaml")[1])
    assert given["reasoning_node"]["parameters"] == [file]  # a model of the user's own


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"tasks": "recall"}, "tasks must be a list"),
        ({"tasks": "[juggle]", "delays": "[0]"}, "tasks must be one of"),
        ({"delays": "[a, b]"}, "delays must be of type integer"),
        ({"camera_hz": "50"}, "camera_hz must be one of 30, 60"),
        ({"tasks": "["}, "tasks must be a list"),
    ],
)
def test_a_robot_that_cannot_be_is_refused_before_anything_starts(run, given, says):
    with pytest.raises(ConfigError, match=says):
        run("tabletop.launch.py", **given)


def expand(name: str, **arguments: str) -> dict[str, list[str]]:
    """The processes that ``ros2 launch`` would start: executable to its command line."""
    if importlib.util.find_spec("launch_ros") is None:
        pytest.skip("launch_ros is not installed: it comes with a ROS distribution only")
    from ament_index_python.packages import PackageNotFoundError, get_package_prefix
    from launch import LaunchContext
    from launch.actions import OpaqueFunction
    from launch.launch_description_sources import PythonLaunchDescriptionSource
    from launch_ros.actions import Node

    try:
        get_package_prefix("vla_edge_ros")
    except (PackageNotFoundError, OSError):
        pytest.skip("vla_edge_ros is not built and sourced")
    context = LaunchContext()
    context.launch_configurations.update(arguments)
    context.extend_locals({"ros_specific_arguments": {"name": "", "ns": ""}})  # as Node.execute does
    description = PythonLaunchDescriptionSource(str(REPOSITORY / "launch" / name)).get_launch_description(
        context
    )
    started = {}
    for entity in description.entities:
        actions = entity.execute(context)
        if isinstance(entity, OpaqueFunction):
            for node in (action for action in actions if isinstance(action, Node)):
                node._perform_substitutions(context)
                started[node.node_executable] = [
                    "".join(part.perform(context) for part in words) for words in node.cmd
                ]
    return started


def test_launch_itself_starts_two_processes_or_one():
    assert set(expand("replay.launch.py")) == {"replay_node", "reasoning_node"}
    started = expand("replay.launch.py", one_process="true", source="1e3")
    assert set(started) == {"demo"} and "source:='1e3'" in started["demo"]


@pytest.mark.parametrize("name", [path.name for path in FILES])
def test_launch_itself_refuses_what_is_no_boolean(name):
    argument = {"replay": "loop", "tabletop": "physics"}.get(name.partition(".")[0], "autostart")
    with pytest.raises(RuntimeError, match="not valid"):
        expand(name, **{argument: "1"})


def test_launch_itself_remaps_a_users_camera():
    started = expand("reasoning.launch.py", image="/camera/image_raw")
    assert "image:=/camera/image_raw" in started["reasoning_node"]
