# SPDX-License-Identifier: Apache-2.0
"""The replay node as a process of its own: exit codes, signals, its log."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from image_files import write_pictures

pytestmark = pytest.mark.ros

ROOT = Path(__file__).resolve().parents[2]


def launch_node(*parameters: str) -> subprocess.Popen:
    arguments = [part for parameter in parameters for part in ("-p", parameter)]
    return subprocess.Popen(
        [sys.executable, "-m", "vla_edge_ros.ros.replay_node", "--ros-args", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_process_with_exit_code_zero_and_no_traceback(number):
    process = launch_node("rate_hz:=60.0")
    line = process.stderr.readline()
    assert "replaying synthetic at 60 Hz" in line
    process.send_signal(number)
    _, rest = process.communicate(timeout=30)
    assert process.returncode == 0 and "Traceback" not in rest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_wait_for_a_subscriber(number):
    process = launch_node("loop:=false")
    log = ""
    while "waits for a subscriber of /image" not in log:
        line = process.stderr.readline()
        assert line, log
        log += line
    process.send_signal(number)
    _, rest = process.communicate(timeout=30)
    assert process.returncode == 0 and "Traceback" not in rest


def test_the_process_says_when_the_source_ends_and_exits_with_zero(tmp_path):
    source = write_pictures(tmp_path / "pictures", 5)
    process = launch_node(f"source:={source}", "loop:=false", "rate_hz:=100", "wait_for_subscriber:=never")
    _, log = process.communicate(timeout=30)
    assert process.returncode == 0
    assert f"end of {source} after 5 images" in log and "Traceback" not in log


@pytest.mark.parametrize(
    ("parameter", "says"),
    [
        ("source:=no/such.mp4", "error: source no/such.mp4 does not exist"),
        ("rate_hz:=0", "error: rate_hz must be at least 0.1"),
        ("rate_hz:=fast", "error: rate_hz must be of type double, got 'fast'"),
        (
            "rate:=30",
            "error: rate must be a parameter of this node, got an unknown name; did you mean rate_hz?",
        ),
        ("source:=1e3", "error: source 1e3 does not exist"),
    ],
)
def test_the_process_refuses_in_one_line_with_exit_code_one(parameter, says):
    process = launch_node(parameter)
    _, log = process.communicate(timeout=30)
    assert process.returncode == 1
    assert says in log and len(log.strip().splitlines()) == 1
