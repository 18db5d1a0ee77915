# SPDX-License-Identifier: Apache-2.0
"""The demo's command line, and where its default parameter file comes from."""

import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

pytest.importorskip("rclpy", reason="the demo needs rclpy")

from vla_edge_ros.console import READER_LEFT  # noqa: E402
from vla_edge_ros.errors import ConfigError  # noqa: E402
from vla_edge_ros.ros.demo import _parse  # noqa: E402
from vla_edge_ros.ros.share import share_file  # noqa: E402

pytestmark = pytest.mark.ros
REPOSITORY = Path(__file__).resolve().parents[2]


def test_defaults_run_for_ever_on_a_synthetic_scene():
    options, ros_args = _parse([])
    assert (options.source, options.duration, options.rate_hz, options.config) == (None, 0.0, None, None)
    assert ros_args == []


def test_ros_arguments_are_handed_on():
    options, ros_args = _parse(["--duration", "2", "--ros-args", "-p", "timing.period_ms:=40"])
    assert options.duration == 2.0
    assert ros_args == ["-p", "timing.period_ms:=40"]


def test_a_parameter_file_that_is_not_there_is_named(capsys):
    with pytest.raises(SystemExit):
        _parse(["--config", "nowhere.yaml"])
    assert "nowhere.yaml" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--rate-hz", "--rate_hz", "--rate"])
def test_the_rate_has_one_name_and_its_old_one(option):
    assert _parse([option, "30"])[0].rate_hz == 30.0


def test_a_file_name_may_begin_with_a_dash():
    assert _parse(["--duration", "2", "--source", "-dash.mp4"])[0].source == "-dash.mp4"
    assert _parse(["--source=-dash.mp4"])[0].source == "-dash.mp4"


@pytest.mark.parametrize("args", [["--sorce", "x"], ["--dur", "2"], ["clip.mp4"]])
def test_an_unknown_option_is_refused(args, capsys):
    with pytest.raises(SystemExit):
        _parse(args)
    assert "unrecognized arguments" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["-1", "nan", "inf"])
def test_duration_that_cannot_be_waited_for_is_refused(seconds, capsys):
    with pytest.raises(SystemExit):
        _parse(["--duration", seconds])
    assert "--duration must be at least 0 seconds" in capsys.readouterr().err


def test_shipped_files_are_found_and_others_are_named():
    assert share_file("config/tiny.yaml").is_file()
    with pytest.raises(ConfigError, match="config/none.yaml"):
        share_file("config/none.yaml")


CALM = ["-p", "timing.period_ms:=100.0", "-p", "timing.deadline_ms:=100.0"]


def demo(*args: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "vla_edge_ros.ros.demo", *args],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_demo_whose_reader_leaves_ends_in_order():
    process = demo("--ros-args", *CALM)
    assert " 1 s | camera" in process.stdout.readline()
    process.stdout.close()
    log = process.stderr.read()
    assert process.wait() == READER_LEFT
    assert "Traceback" not in log and "exception" not in log


def test_the_cameras_parameters_may_be_given_behind_ros_args(tmp_path):
    Image.new("RGB", (8, 4)).save(tmp_path / "1.png")
    process = demo(
        "--ros-args",
        *CALM,
        "-p",
        f"source:={tmp_path}",
        "-p",
        "loop:=false",
        "-p",
        "rate_hz:=30",
        "-p",
        "width:=4",
    )
    output, log = process.communicate(timeout=60)
    assert process.returncode == 0, log
    assert f"replaying {tmp_path} at 30 Hz, 4xany, each_frame" in log
    assert "1 images published, 1 received" in output  # it waited until the reasoner listened


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (
            ["--ros-args", "-p", "rate:=30"],
            "error: rate must be a parameter of this node, got an unknown name",
        ),
        (["--ros-args", "-p", "source:=1e3"], "error: source 1e3 does not exist"),
        (["--source", "-dash.mp4"], "error: source -dash.mp4 does not exist"),
    ],
)
def test_a_mistake_is_one_line(args, says):
    process = demo(*args)
    _, log = process.communicate(timeout=60)
    assert process.returncode == 1
    assert says in log and len(log.strip().splitlines()) == 1


def test_a_parameter_file_whose_keys_match_no_node_is_named_with_them(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("vla_reasoner:\n  ros__parameters: {timing: {period_ms: 50.0}}\n")
    process = demo("--config", str(path))
    _, log = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"error: {path} must have the key /** or /vla/vla_reasoner" in log and "got vla_reasoner" in log
