# SPDX-License-Identifier: Apache-2.0
"""What the launch files decide, for machines with and without a GPU."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from vla_edge_ros.errors import ConfigError, VlaEdgeError
from vla_edge_ros.replay.config import ReplayConfig
from vla_edge_ros.ros import launch_choices
from vla_edge_ros.ros.launch_choices import (
    LARGE_PRESET,
    REASONING,
    REPLAY,
    is_on_command_line,
    plan_reasoning,
    plan_replay,
    refuse_death,
    refuse_unknown,
    run_check,
)
from vla_edge_ros.ros.parameter_tree import leaves
from vla_edge_ros.ros.share import share_file

ROOT = Path(__file__).resolve().parents[2]
TINY, DEFAULT = str(share_file("config/tiny.yaml")), str(share_file("config/default.yaml"))


def gpu() -> tuple[str, str]:
    return "cuda", ""


def no_gpu() -> tuple[str, str]:
    return "numpy", "NVRTC is missing"


def never() -> tuple[str, str]:
    raise AssertionError("nobody needs to know whether a GPU works")


def replay(check=gpu, environment=None, **given):
    values = {argument.name: argument.default for argument in REPLAY}
    return plan_replay({**values, **given}, environment or {}, check)


def reasoning(check=gpu, environment=None, **given):
    values = {argument.name: argument.default for argument in REASONING}
    return plan_reasoning({**values, **given}, environment or {}, check)


def parameter_file(folder: Path, parameters: str, key: str = "/**") -> str:
    path = folder / "mine.yaml"
    path.write_text(f"{key}:\n  ros__parameters: {{{parameters}}}\n")
    return str(path)


@pytest.mark.parametrize("plan", [replay, reasoning])
def test_without_a_gpu_and_a_model_the_tiny_model_runs_and_one_line_says_so(plan):
    chosen = plan(no_gpu)
    assert chosen.config_files == [TINY]
    (note,) = chosen.notes
    assert "NVRTC is missing" in note and "tiny model" in note and "model.path" in note


@pytest.mark.parametrize("plan", [replay, reasoning])
def test_with_a_gpu_the_default_model_runs_without_a_word(plan):
    chosen = plan(gpu)
    assert (chosen.config_files, chosen.notes) == ([DEFAULT], [])


@pytest.mark.parametrize("parameters", ["model.path: /models/vla", "model: {path: /m}", "engine.name: cuda"])
def test_a_model_of_the_users_own_is_not_asked_about(tmp_path, parameters):
    path = parameter_file(tmp_path, parameters)
    chosen = replay(never, config=path)
    assert (chosen.config_files, chosen.notes) == ([path], [])


def test_the_tiny_files_name_is_enough_and_asks_for_no_gpu():
    assert replay(never, config="tiny.yaml").config_files == [TINY]


def test_a_file_that_names_no_model_is_laid_over_the_tiny_one(tmp_path):
    path = parameter_file(tmp_path, "timing: {period_ms: 50.0}")
    chosen = replay(no_gpu, config=path)
    assert chosen.config_files == [TINY, path]
    assert path in chosen.notes[0]
    assert replay(gpu, config=path).config_files == [path]


def test_the_large_model_by_name_runs_as_asked_with_a_warning(tmp_path):
    path = parameter_file(tmp_path, f"model: {{preset: {LARGE_PRESET}}}")
    chosen = replay(no_gpu, config=path)
    assert chosen.config_files == [path]
    assert "take minutes to build" in chosen.notes[0]


@pytest.mark.parametrize("plan", [replay, reasoning])
def test_a_parameter_file_that_is_not_there_is_an_error_with_its_path(plan, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("none.yaml", "folder/tiny.yaml", "/no/such.yaml"):
        with pytest.raises(
            ConfigError, match=f"^config must name a parameter file, got {name} .looked for /"
        ):
            plan(never, config=name)


@pytest.mark.parametrize(
    ("key", "namespace", "pushed", "reaches"),
    [
        ("vla_reasoner", "vla", "", False),
        ("/vla/vla_reasoner", "vla", "", True),
        ("/vla/vla_reasoner", "arm", "", False),
        ("/vla/vla_reasoner", "vla", "robot", False),
        ("/robot/vla/vla_reasoner", "vla", "robot", True),
        ("/vla/vla_reasoner", "/vla", "robot", True),
        ("vla_reasoner", "", "", True),
    ],
)
def test_a_file_whose_keys_match_no_node_is_an_error_with_path_and_keys(
    tmp_path, key, namespace, pushed, reaches
):
    path = parameter_file(tmp_path, "model.path: /m", key)
    if reaches:
        assert reasoning(gpu, config=path, namespace=namespace, ros_namespace=pushed).config_files == [path]
        return
    with pytest.raises(ConfigError, match=f"^{path} must have the key /.. or /.*vla_reasoner, got {key}"):
        reasoning(gpu, config=path, namespace=namespace, ros_namespace=pushed)


def test_every_parameter_of_the_camera_is_an_argument_and_arrives():
    given = replay(source="clip.mp4", bag_topic="/a/b", timing="media_time", loop="false", width="640")
    assert given.camera[::2] == ["-p"] * len(list(leaves(ReplayConfig)))
    assert set(given.camera[1::2]) >= {
        "source:='clip.mp4'",
        "bag_topic:='/a/b'",
        "timing:='media_time'",
        "loop:=false",
        "width:=640",
        "height:=-1",
        "rate_hz:=60.0",
    }


@pytest.mark.ros
@pytest.mark.parametrize(
    "source", ["1e3", "-dash.mp4", "it's.mp4", "[a], {b}.mp4", "a: b #c.mp4", "true", "~"]
)
def test_any_file_name_arrives_as_it_was_typed(source, ros_context):
    from rclpy.context import Context
    from rclpy.node import Node

    context = Context()
    context.init(["--ros-args", *replay(source=source).camera])
    node = Node("camera", context=context, start_parameter_services=False)
    try:
        assert node.declare_parameter("source", "").value == source
        assert node.declare_parameter("bag_topic", "?").value == ""
        assert node.declare_parameter("loop", False).value is True
    finally:
        node.destroy_node()
        context.shutdown()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"rate_hz": "fast"}, r"^rate_hz must be a number \(double\), got 'fast'"),
        ({"rate": "fast"}, r"^rate must be a number \(double\), got 'fast'"),
        ({"rate_hz": "0"}, "^rate_hz must be at least 0.1"),
        ({"rate": "30", "rate_hz": "40"}, "^rate_hz and rate, its old name, must agree, got 40 and 30"),
        ({"width": "1.5"}, r"^width must be a number \(integer\), got '1.5'"),
        ({"loop": "1"}, "^loop must be true or false, got '1'"),
        ({"timing": "quick"}, "^timing must be one of each_frame, media_time, got 'quick'"),
        ({"transport": "FAST"}, "^transport must be one of DEFAULT, .*, got 'FAST'"),
    ],
)
def test_a_value_that_cannot_work_is_refused_by_the_name_that_was_typed(given, says):
    with pytest.raises(ConfigError, match=says):
        replay(**given)


def test_the_old_name_of_the_rate_serves_and_is_named():
    chosen = replay(rate="30")
    assert "rate_hz:=30.0" in chosen.camera
    assert "rate_hz" in chosen.notes[0]


@pytest.mark.parametrize("plan", [replay, reasoning])
def test_the_users_environment_wins_over_the_transport(plan):
    name = launch_choices.TRANSPORT_VARIABLE
    assert name not in plan().environment  # whatever is exported stays
    assert plan(transport="LARGE_DATA").environment[name] == "LARGE_DATA"
    assert plan(transport="LARGE_DATA?max_msg_size=1MB").environment[name].startswith("LARGE_DATA?")
    for exported, notes in (("UDPv4", 1), ("LARGE_DATA", 0)):
        chosen = plan(environment={name: exported}, transport="LARGE_DATA")
        assert chosen.environment.get(name, exported) == exported
        assert len(chosen.notes) == notes


def test_an_argument_that_launch_would_ignore_is_refused():
    given = ["source:=x", "rate:=3", "launch-prefix:=gdb", "emulate_tty:=false"]
    refuse_unknown("replay.launch.py", given, REPLAY)
    with pytest.raises(ConfigError, match="^bag_topc must be .*replay.launch.py.* did you mean bag_topic"):
        refuse_unknown("replay.launch.py", ["bag_topc:=/a"], REPLAY)


def test_only_the_file_that_the_user_named_judges_the_command_line():
    assert is_on_command_line("replay.launch.py", ["ros2", "launch", "vla_edge_ros", "replay.launch.py"])
    assert is_on_command_line("replay.launch.py", ["ros2", "launch", "/a/b/replay.launch.py", "rate:=3"])
    assert not is_on_command_line("replay.launch.py", ["ros2", "launch", "robot", "bringup.launch.py"])


def test_a_process_that_died_is_an_error_of_the_launch():
    refuse_death("replay_node", 0)
    with pytest.raises(VlaEdgeError, match="replay_node ended with exit code 1"):
        refuse_death("replay_node", 1)


def test_the_nodes_own_interpreter_is_asked_for_its_engine():
    engine, reason = run_check()
    assert engine in ("cuda", "numpy") and bool(reason) == (engine == "numpy")


def program(folder: Path, body: str) -> list[str]:
    path = folder / "engine_check"
    path.write_text(f"#!{sys.executable}\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return [str(path)]


@pytest.mark.parametrize(
    ("body", "engine", "says"),
    [
        ("print('cuda')", "cuda", ""),
        ("print('numpy'); print('no driver')", "numpy", "no driver"),
        ("raise SystemExit('no module named numpy')", "numpy", "no module named numpy"),
        ("", "numpy", "failed"),
    ],
)
def test_a_check_that_fails_is_no_gpu_with_its_reason(tmp_path, monkeypatch, body, engine, says):
    monkeypatch.setattr(launch_choices, "_check_command", lambda: program(tmp_path, body))
    assert run_check()[0] == engine and says in run_check()[1]


def test_a_check_that_is_not_there_is_no_gpu_with_its_reason(monkeypatch):
    monkeypatch.setattr(launch_choices, "_check_command", lambda: ["/no/engine_check"])
    assert run_check()[0] == "numpy" and "/no/engine_check" in run_check()[1]


def test_the_nodes_are_told_which_launch_to_end_with():
    assert reasoning().environment[launch_choices.LAUNCH_PID] == str(os.getpid())


def test_the_choices_need_nothing_that_only_the_nodes_interpreter_has():
    """`ros2 launch` runs under the system's Python, which has PyYAML, and not what pip installed for us."""
    program = (
        "import sys\n"
        "import vla_edge_ros.ros.launch_choices\n"
        "print(sorted({'numpy', 'rclpy', 'cv2', 'cupy', 'av'} & set(sys.modules)))\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert ran.stdout == "[]\n", ran.stderr
