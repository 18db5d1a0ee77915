# SPDX-License-Identifier: Apache-2.0
"""The demo's command line, and where its default parameter file comes from."""

import pytest

pytest.importorskip("rclpy", reason="the demo needs rclpy")

from vla_edge_ros.errors import ConfigError  # noqa: E402
from vla_edge_ros.ros.demo import _parse  # noqa: E402
from vla_edge_ros.ros.share import share_file  # noqa: E402

pytestmark = pytest.mark.ros


def test_defaults_run_for_ever_on_a_synthetic_scene():
    options, ros_args = _parse([])
    assert (options.source, options.duration, options.rate, options.config) == ("synthetic", 0.0, 60.0, None)
    assert ros_args == []


def test_ros_arguments_are_handed_on():
    options, ros_args = _parse(["--duration", "2", "--ros-args", "-p", "timing.period_ms:=40"])
    assert options.duration == 2.0
    assert ros_args == ["-p", "timing.period_ms:=40"]


def test_a_parameter_file_that_is_not_there_is_named(capsys):
    with pytest.raises(SystemExit):
        _parse(["--config", "nowhere.yaml"])
    assert "nowhere.yaml" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["-1", "nan", "inf"])
def test_duration_that_cannot_be_waited_for_is_refused(seconds, capsys):
    with pytest.raises(SystemExit):
        _parse(["--duration", seconds])
    assert "--duration must be at least 0 seconds" in capsys.readouterr().err


def test_shipped_files_are_found_and_others_are_named():
    assert share_file("config/tiny.yaml").is_file()
    with pytest.raises(ConfigError, match="config/none.yaml"):
        share_file("config/none.yaml")
