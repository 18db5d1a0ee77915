# SPDX-License-Identifier: Apache-2.0
"""Parameter files, through rcl's parser and the nodes' own: what is taken is what the file says.

An input is the file.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

# Nobody listens to these nodes, and they shall hear nobody.
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "OFF"

import rclpy  # noqa: E402
import yaml  # noqa: E402
from byte_mutator import mutate  # noqa: E402
from rclpy.node import Node  # noqa: E402
from tree_mutator import ODD_VALUES, mutate_tree  # noqa: E402
from worker import ROOT, refusal  # noqa: E402

from vla_edge_ros.config import VlaConfig  # noqa: E402
from vla_edge_ros.errors import VlaEdgeError  # noqa: E402
from vla_edge_ros.replay.config import ReplayConfig  # noqa: E402
from vla_edge_ros.ros.parameter_tree import Leaf, leaves  # noqa: E402
from vla_edge_ros.ros.parameters import NodeConfig, declare_config, read  # noqa: E402
from vla_edge_ros.ros.reasoning_node import ReasoningNode  # noqa: E402
from vla_edge_ros.ros.spin import _init as init_ros  # noqa: E402
from vla_edge_ros.shipped_models import model_folder  # noqa: E402

REASONER = (NodeConfig, VlaConfig)
OTHERS: tuple[Any, ...] = (
    {"lidar": {"topics": []}},
    {"qos_overrides": {"/image": {"subscription": {"reliability": "reliable", "depth": 3}}}},
    [1, 2.0], ["a", "b"], [True, False], [], [""], "33", 33, 33.0, "1e3", "on", "auto", "cuda", "tiny",
    2**63 - 1, 2**63, -(2**63), 1e308, "/no/such/folder", "~/model", "$(env HOME)",
)  # fmt: skip


@functools.cache
def _all_leaves() -> tuple[Leaf, ...]:
    return tuple(leaf for config in (*REASONER, ReplayConfig) for leaf in leaves(config))


def make(random: Random) -> bytes:
    files = sorted((ROOT / "config").glob("*.yaml"))
    text = random.choice(files).read_text(encoding="utf-8")
    if random.random() < 0.3:
        return mutate(text.encode(), random)
    tree = yaml.safe_load(text) if random.random() < 0.4 else _some_parameters(random)
    if random.random() < 0.7:
        tree = mutate_tree(tree, random, OTHERS)
    text = yaml.safe_dump(
        tree, allow_unicode=random.random() < 0.5, default_flow_style=random.choice((None, True))
    )
    return mutate(text.encode(), random) if random.random() < 0.1 else text.encode("utf-8", "surrogatepass")


def _some_parameters(random: Random) -> dict[str, Any]:
    """Some parameters with values of their own type or of none; nested, dotted, or partly so."""
    parameters: dict[str, Any] = {}
    for leaf in random.sample(_all_leaves(), random.randrange(1, 8)):
        value = list(leaf.default) if isinstance(leaf.default, tuple) else leaf.default
        if random.random() < 0.5:
            value = random.choice((*OTHERS, *ODD_VALUES, *leaf.choices))
        section, _, name = leaf.name.rpartition(".")
        inner = parameters.setdefault(section, {}) if section and random.random() < 0.8 else None
        if isinstance(
            inner, dict
        ):  # the camera has a parameter of the name of one of the reasoner's sections
            inner[name] = value
        else:
            parameters[leaf.name] = value
    key = random.choice(("/**", "/**", "vla_reasoner", "/vla_reasoner", "/*", "replay_camera", "/other/node"))
    return {key: {"ros__parameters": parameters}}


def check(data: bytes, folder: Path) -> str:
    path = folder / "parameters.yaml"
    path.write_bytes(data)
    verdicts = {_reasoner(path, data), _camera(path, data)}
    return "good" if "good" in verdicts else "refused"


def _reasoner(path: Path, data: bytes) -> str:
    def read_all(node: ReasoningNode) -> None:
        for config_class in REASONER:
            _compare(config_class, read(node, config_class), data, "/vla_reasoner")

    return _with_node(path, ReasoningNode, read_all)


def _camera(path: Path, data: bytes) -> str:
    def read_all(node: Node) -> None:
        _compare(ReplayConfig, declare_config(node, ReplayConfig), data, "/replay_camera")

    return _with_node(path, lambda: Node("replay_camera"), read_all)


def _with_node(path: Path, make: Callable[[], Node], read_all: Callable[[Any], None]) -> str:
    node = None
    try:
        init_ros(["--ros-args", "--params-file", str(path), "--log-level", "fatal"])
        node = make()
        read_all(node)
    except VlaEdgeError as error:
        return refusal(error)
    finally:
        if node is not None:
            node.destroy_node()
        rclpy.try_shutdown()
    return "good"


def _compare(config_class: type, config: Any, data: bytes, node_name: str) -> None:
    """Each value against PyYAML's reading of the same file, where both readers agree on what it means."""
    given = _given(data, node_name)
    for leaf in leaves(config_class):
        if leaf.name not in given:
            continue
        value = config
        for part in leaf.name.split("."):
            value = getattr(value, part)
        wanted = given[leaf.name]
        if isinstance(wanted, list):
            wanted, value = tuple(item for item in wanted if item != ""), tuple(value)
        if leaf.name == "model.path" and isinstance(wanted, str):
            wanted = model_folder(wanted)  # the name of a shipped model
        if isinstance(value, float) and type(wanted) is int:
            wanted = float(wanted)  # large integers are rounded
        assert value == wanted, f"{leaf.name}: the file says {wanted!r}, the node has {value!r}"


def _given(data: bytes, node_name: str) -> dict[str, Any]:
    """Parameter name to value, of a file that has one section and that one for this node; else nothing."""
    try:
        tree = yaml.safe_load(data)
        ((key, body),) = tree.items()
        parameters = body["ros__parameters"]
    except (yaml.YAMLError, ValueError, AttributeError, TypeError, KeyError, UnicodeDecodeError):
        return {}
    if key not in ("/**", node_name, node_name[1:]) or not isinstance(parameters, dict) or len(body) != 1:
        return {}
    found: dict[str, Any] = {}
    for name, value in _flat(parameters, ""):
        if name in found:
            return {}  # given twice: the last one wins in one reader, not in the other
        found[name] = value
    return {name: value for name, value in found.items() if _is_plain(value)}


def _flat(tree: dict[Any, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _is_plain(value: Any) -> bool:
    """Not what YAML 1.1 and rcl's parser read as different types, nor what has no type in ROS."""
    if isinstance(value, list):
        return bool(value) and all(_is_plain(item) and not isinstance(item, list) for item in value)
    if isinstance(value, str):
        return value[:1].isalpha() and value.lower() not in (
            "y",
            "n",
            "yes",
            "no",
            "on",
            "off",
            "true",
            "false",
            "null",
        )
    return isinstance(value, bool | int | float)
