# SPDX-License-Identifier: Apache-2.0
"""The demo of the simulated robot: its verdict, its exit codes, its command line, its two processes."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="the demo needs rclpy")

from checkpoint_folders import SIZES, reference, write  # noqa: E402
from tokenizer_folders import write_tokenizer  # noqa: E402

from vla_edge_ros.errors import ConfigError, VlaEdgeError  # noqa: E402
from vla_edge_ros.ros import tabletop_demo  # noqa: E402
from vla_edge_ros.ros.robot_process import RobotProcess  # noqa: E402
from vla_edge_ros.ros.share import trained_model  # noqa: E402
from vla_edge_ros.ros.tabletop_demo import FLOOR, _parse, judge, main  # noqa: E402
from vla_edge_ros.tabletop.results import EpisodeResult, read_results  # noqa: E402

pytestmark = pytest.mark.ros
REPOSITORY = Path(__file__).resolve().parents[2]


def result(task: str, succeeded: bool) -> EpisodeResult:
    values = {field.name: 0 for field in dataclasses.fields(EpisodeResult)}
    return EpisodeResult(**{**values, "task": task, "succeeded": succeeded, "instruction": "x"})


def test_below_the_floor_the_exit_code_is_1():
    results = [result("point", True), result("recall", True), result("recall", False)]
    text, code = judge(results, 0.6)
    assert code == 0 and "success   point: 1 of 1" in text and "success   recall: 1 of 2" in text
    assert text.endswith("67% of 3 episodes, which reaches the floor of 60%")
    text, code = judge(results, 0.7)
    assert code == 1 and "is below the floor of 70%" in text
    assert judge([], 0.0)[1] == 1 and "no episode ended" in judge([], 0.0)[0]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--duration", "-1"], "--duration must be at least 0 seconds"),
        (["--duration", "nan"], "--duration must be at least 0 seconds"),
        (["--floor", "1.5"], "--floor must be a share from 0 to 1"),
        (["--rate-hz", "50"], "invalid choice"),
        (["--dur", "3"], "unrecognized arguments"),
    ],
)
def test_an_option_that_cannot_be_is_refused(args, says, capsys):
    with pytest.raises(SystemExit):
        _parse(args)
    assert says in capsys.readouterr().err


def test_defaults_and_what_stands_behind_ros_args():
    options, ros_args = _parse(["--robot", "tasks:=[recall]", "--ros-args", "-p", "a:=1"])
    assert (options.duration, options.floor, options.rate_hz) == (60.0, FLOOR, 30)
    assert options.robot == ["tasks:=[recall]"] and ros_args == ["-p", "a:=1"]


def test_without_trained_weights_the_demo_says_so_and_ends(monkeypatch, capsys):
    with pytest.raises(
        ConfigError, match="the trained weights nobody must be in .*models/nobody, got no con"
    ):
        trained_model("nobody")
    monkeypatch.setattr(tabletop_demo, "TABLETOP_MODEL", "nobody")
    assert main([]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: the trained weights nobody must be in ") and len(err.splitlines()) == 1


def test_a_robot_process_that_cannot_start_is_an_error_of_its_owner(tmp_path, wait_until):
    robot = RobotProcess("vla", tmp_path / "r.jsonl", ["camera_hz:=31"])

    def ended() -> bool:
        try:
            return robot.has_ended()
        except VlaEdgeError as error:
            return "ended with exit code 1" in str(error)

    wait_until(ended)
    robot.stop()
    assert robot.results == []


def test_both_processes_play_an_episode_and_random_weights_are_below_the_floor(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    write(folder, reference())
    (folder / "config.json").write_text(json.dumps(SIZES))
    write_tokenizer(folder)
    out = tmp_path / "runs"
    command = [sys.executable, "-m", "vla_edge_ros.ros.tabletop_demo", "--model", str(folder)]
    command += ["--out", str(out), "--duration", "0", "--floor", "1.0"]
    for rule in ("episodes:=1", "tasks:=[point]", "delays:=[0]", "physics:=false"):
        command += ["--robot", rule]
    command += ["--ros-args", "-p", "action.decoding:=autoregressive", "-p", "timing.period_ms:=100.0"]
    command += ["-p", "timing.deadline_ms:=100.0", "-p", "timing.max_frame_age_ms:=1000.0"]
    ran = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 1, ran.stderr
    assert " 1 s | camera" in ran.stdout and "is below the floor of 100%" in ran.stdout
    (run,) = out.iterdir()
    (played,) = read_results(run / "episodes.jsonl")
    assert not played.succeeded and played.text in ran.stdout
    assert f"film      {run / 'film.gif'}" in ran.stdout and (run / "film.gif").stat().st_size > 1000
