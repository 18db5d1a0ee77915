# SPDX-License-Identifier: Apache-2.0
"""Errors of the reasoner's configuration begin with the parameter that is to be changed."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy", reason="the node needs rclpy")

from vla_edge_ros.errors import ConfigError  # noqa: E402
from vla_edge_ros.ros.parameters import NodeConfig  # noqa: E402

pytestmark = pytest.mark.ros


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"model__path": "/no/such/model"}, "cannot configure: model.path must be a model folder"),
        ({"prompt__instruction": "go " * 400}, "cannot configure: prompt.instruction takes "),
        ({"max_stamp_lead_ms": -1.0}, "cannot configure: max_stamp_lead_ms must be at least 0"),
    ],
)
def test_an_error_of_a_model_or_an_instruction_names_its_parameter(graph, parameters, says):
    node = graph.reasoner(**parameters)
    assert node.faults.current().startswith(says)


def test_a_parameter_without_a_section_is_named_without_one():
    with pytest.raises(ConfigError, match="^camera_timeout_ms must be at least 1"):
        NodeConfig(camera_timeout_ms=0.0)
