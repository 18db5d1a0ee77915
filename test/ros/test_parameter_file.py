# SPDX-License-Identifier: Apache-2.0
"""Which keys of a parameter file reach a node: rcl is the judge."""

from __future__ import annotations

import pytest
import yaml

from vla_edge_ros.errors import ConfigError
from vla_edge_ros.ros.parameter_file import check_keys, matches, parameters_for, sections

KEYS = [
    "camera", "/camera", "/vla/camera", "vla/camera", "/*", "*", "/**", "**", "/*/camera", "/**/camera",
    "/vla/*", "/vla/**", "/other/camera", "/vla/came", "/vla/**/camera", "/*/*", "/*/*/*",
]  # fmt: skip
NODES = {"/camera": ("camera", "/"), "/vla/camera": ("camera", "/vla"), "/a/vla/camera": ("camera", "/a/vla")}


@pytest.mark.ros
@pytest.mark.parametrize("key", KEYS)
def test_a_key_matches_the_nodes_that_rcl_gives_its_parameters_to(key, ros_context, tmp_path):
    from rclpy.context import Context
    from rclpy.node import Node

    path = tmp_path / "parameters.yaml"
    path.write_text(yaml.safe_dump({key: {"ros__parameters": {"here": 1}}}))
    context = Context()
    context.init(["--ros-args", "--params-file", str(path)])
    try:
        for full_name, (name, namespace) in NODES.items():
            node = Node(
                name,
                namespace=namespace,
                context=context,
                automatically_declare_parameters_from_overrides=True,
                start_parameter_services=False,
            )
            assert matches(key, full_name) == node.has_parameter("here"), full_name
            node.destroy_node()
    finally:
        context.shutdown()


def write(tmp_path, text: str):
    path = tmp_path / "some.yaml"
    path.write_text(text)
    return path


def test_nested_namespaces_are_one_key(tmp_path):
    path = write(tmp_path, "robot:\n  vla:\n    camera:\n      ros__parameters: {a: 1}\n")
    assert [key for key, _ in sections(path)] == ["robot/vla/camera"]
    check_keys(path, ["/robot/vla/camera"])


def test_parameters_are_given_by_their_dotted_names(tmp_path):
    path = write(
        tmp_path,
        "/**:\n  ros__parameters: {model: {path: /x, seed: 1}, a: 1}\n"
        "/vla/b:\n  ros__parameters: {a: 2}\n/vla/c:\n  ros__parameters: {a: 3}\n",
    )
    assert parameters_for(path, "/vla/b") == {"model.path": "/x", "model.seed": 1, "a": 2}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "vla_reasoner:\n  ros__parameters: {a: 1}\n",
            "must have the key /.. or /vla/camera, got vla_reasoner",
        ),
        ("a: 1\n", "got none with ros__parameters below it"),
        ("", "a map of node names, got None"),
        ("- 1\n", "a map of node names, got "),
        ("a: [\n", "in YAML, got: "),
        ("lidar:\n  ros__parameters: {topics: []}\n", "got lidar"),
    ],
)
def test_a_file_that_speaks_to_nobody_names_its_path_and_its_keys(tmp_path, text, says):
    path = write(tmp_path, text)
    with pytest.raises(ConfigError, match=says) as raised:
        check_keys(path, ["/vla/camera"])
    assert str(raised.value).startswith(f"{path} must ") and "\n" not in str(raised.value)


def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path):
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "none.yaml", tmp_path, tmp_path / "binary.yaml"):
        with pytest.raises(ConfigError, match=f"^{path} must be a parameter file"):
            check_keys(path, ["/vla/camera"])
