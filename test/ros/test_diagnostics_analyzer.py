# SPDX-License-Identifier: Apache-2.0
"""config/diagnostics_analyzer.yaml groups this package's statuses and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

pytest.importorskip("rclpy", reason="diagnostic messages need rclpy's type support")

from vla_edge_ros.config import TimingConfig
from vla_edge_ros.ros.diagnostics import diagnose
from vla_edge_ros.ros.health import ActionHealth, CameraHealth, EngineHealth
from vla_edge_ros.ros.robot_input import RobotInput
from vla_edge_ros.runtime.metrics import RunMetrics

pytestmark = pytest.mark.ros

ANALYZER = Path(__file__).resolve().parents[2] / "config" / "diagnostics_analyzer.yaml"


@pytest.mark.parametrize("node_name", ["/vla_reasoner", "/robot1/vla/vla_reasoner", "/left_arm/policy"])
def test_the_analyzer_file_groups_the_statuses_of_any_node_and_of_no_other_package(node_name):
    """As ``GenericAnalyzer`` does it: a regular expression has to match the whole name of a status."""
    parameters = yaml.safe_load(ANALYZER.read_text())["/**"]["ros__parameters"]["vla_reasoner"]
    assert parameters["type"] == "diagnostic_aggregator/GenericAnalyzer"
    (pattern,) = parameters["regex"]
    empty = (CameraHealth(), RunMetrics(33.0).snapshot(), ActionHealth(), EngineHealth())
    made = [status.name for status in diagnose(node_name, TimingConfig(), *empty)]
    made.append(RobotInput(0.2).diagnose(node_name, False, 1, 0.0).name)
    assert len(made) == 7 and all(re.fullmatch(pattern, name) for name in made)
    for other in (
        "vla_reasoner: Camera",
        "/camera: driver",
        "/base: Battery",
        "/x: GPU temperature",
        "/r: Robots",
    ):
        assert not re.fullmatch(pattern, other)
