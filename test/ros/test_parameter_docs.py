# SPDX-License-Identifier: Apache-2.0
"""The committed reference and the shipped parameter files agree with the configuration classes."""

from pathlib import Path

import pytest
import yaml

pytest.importorskip("rclpy", reason="the page covers the node's own parameters")

from vla_edge_ros.config import VlaConfig  # noqa: E402
from vla_edge_ros.ros.parameter_docs import PAGE, main, render  # noqa: E402
from vla_edge_ros.ros.parameter_tree import build, leaves  # noqa: E402
from vla_edge_ros.ros.parameters import NodeConfig  # noqa: E402

pytestmark = pytest.mark.ros

REPOSITORY = Path(__file__).resolve().parents[2]


def test_the_committed_reference_is_up_to_date():
    committed = (REPOSITORY / PAGE).read_text(encoding="utf-8")
    assert committed == render(), "run: python -m vla_edge_ros.ros.parameter_docs"


def test_help_writes_no_file_and_a_path_is_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["--help"])
    assert not list(tmp_path.iterdir())
    main(["page.md"])
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == render()


def flat(tree: dict, prefix: str = "") -> dict:
    values = {}
    for name, value in tree.items():
        values |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return values


@pytest.mark.parametrize("name", ["default.yaml", "tiny.yaml", "tabletop.yaml"])
def test_a_shipped_parameter_file_holds_known_names_and_a_valid_configuration(name):
    document = yaml.safe_load((REPOSITORY / "config" / name).read_text(encoding="utf-8"))
    assert list(document) == ["/**"]  # a bare node name would not reach a node in a namespace
    values = flat(document["/**"]["ros__parameters"])
    known = {leaf.name for config in (VlaConfig, NodeConfig) for leaf in leaves(config)}
    assert set(values) <= known
    build(VlaConfig, values)


def test_the_default_file_states_the_defaults():
    document = yaml.safe_load((REPOSITORY / "config" / "default.yaml").read_text(encoding="utf-8"))
    assert build(VlaConfig, flat(document["/**"]["ros__parameters"])) == VlaConfig()
