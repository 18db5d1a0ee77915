# SPDX-License-Identifier: Apache-2.0
"""What a node's command line may hold, and what it means."""

from __future__ import annotations

import pytest

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.errors import ConfigError
from vla_edge_ros.replay.config import ReplayConfig
from vla_edge_ros.ros.command_line import CommandLine


def camera(*arguments: str) -> CommandLine:
    return CommandLine(arguments, [ReplayConfig])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--source", "clip.mp4"], "must hold parameters, as in --ros-args -p source:=VALUE, got '--source'"),
        (["--ros-args", "-p", "loop:=false", "--", "clip.mp4"], "got 'clip.mp4'"),
        (["--ros-args", "-p", "rate:=30"], "^rate must be .* unknown name; did you mean rate_hz"),
        (["--ros-args", "--param", "xyzzy:=30"], "^xyzzy must be .* unknown name$"),
    ],
)
def test_what_would_change_nothing_is_refused(arguments, says):
    with pytest.raises(ConfigError, match=says):
        camera(*arguments).refuse_unknown()


def test_a_program_without_parameters_refuses_what_it_would_pass_over():
    with pytest.raises(ConfigError, match="as in --ros-args -p use_sim_time:=VALUE, got 'x'"):
        CommandLine(["--ros-args", "--", "x"], []).refuse_unknown()


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--ros-args", "-r", "__ns:=/vla", "--log-level", "debug", "-p", "rate_hz:=30"],
        ["--ros-args", "-p", "use_sim_time:=true", "-p", "qos_overrides./image.publisher.depth:=1"],
        ["--ros-args", "-p", "lidar:range:=3"],
    ],
)
def test_what_is_known_and_what_is_for_others_is_let_pass(arguments):
    camera(*arguments).refuse_unknown()


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("1e3", "1e3"),
        ("-dash.mp4", "-dash.mp4"),
        ("true", "true"),
        ("a #b.mp4", "a #b.mp4"),
        ("a:=b", "a:=b"),
    ],
)
def test_a_text_is_what_was_typed(typed, text):
    assert camera("--ros-args", "-p", f"source:={typed}").texts(ReplayConfig) == {"source": text}


def test_quotes_numbers_and_other_nodes_are_left_to_rcl():
    arguments = ["-p", "source:='1e3'", "-p", "rate_hz:=30", "-p", "other:source:=x", "-p", "bag_topic:="]
    assert camera("--ros-args", *arguments).texts(ReplayConfig) == {}
    assert CommandLine(["--ros-args", "-p", "model.path:=1e3"], [VlaConfig]).texts(VlaConfig) == {
        "model.path": "1e3"
    }


def test_a_parameter_file_is_checked_for_its_keys_and_for_names_below_our_own(tmp_path):
    path = tmp_path / "p.yaml"

    def refuse(text: str) -> None:
        path.write_text(text)
        camera("--ros-args", "--params-file", str(path)).refuse_strangers_files(["/vla/camera"])

    refuse("/**:\n  ros__parameters: {rate: 30, topics: []}\n")  # may be meant for another node
    refuse("/vla/camera:\n  ros__parameters: {rate_hz: 30, use_sim_time: true}\n")
    with pytest.raises(ConfigError, match=f"{path}: rate must be .* did you mean rate_hz"):
        refuse("/vla/camera:\n  ros__parameters: {rate: 30}\n")
    with pytest.raises(ConfigError, match=f"{path} must have the key .* got camera"):
        refuse("camera:\n  ros__parameters: {rate_hz: 30}\n")
