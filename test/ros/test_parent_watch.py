# SPDX-License-Identifier: Apache-2.0
"""Nodes whose launch process is ended in a way that it cannot pass on: real processes and signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="the nodes need rclpy")

from trajectory_msgs.msg import JointTrajectory  # noqa: E402

from vla_edge_ros.ros.parent_watch import LAUNCH_PID  # noqa: E402

pytestmark = pytest.mark.ros

REPOSITORY = Path(__file__).resolve().parents[2]
TINY = str(REPOSITORY / "config" / "tiny.yaml")

# Starts a node as the launch files do, optionally from a thread that ends; prints its process id, and sleeps.
LAUNCH = f"""
import os, subprocess, sys, threading
environment = {{**os.environ, {LAUNCH_PID!r}: str(os.getpid())}}
def start():
    child = subprocess.Popen(sys.argv[2:], env=environment, stdout=sys.stderr, start_new_session=True)
    print(child.pid, flush=True)
thread = threading.Thread(target=start)
thread.start() if sys.argv[1] == "thread" else start()
sys.stdin.read()
"""


@pytest.fixture
def launched():
    """A launch process and the id of the node's process; both are gone after the test."""
    ended, children = [], []

    def launch(how: str, *command: str):
        process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, how, sys.executable, *command],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        ended.append(process)
        children.append(int(process.stdout.readline()))
        return process, children[-1]

    yield launch
    for process in ended:
        process.kill()
        process.communicate()
    for child in children:
        if is_alive(child):
            os.kill(child, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    """A zombie has ended; it waits for whoever adopted it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_reasoner_whose_launch_is_gone_ends_with_zero_motion(launched, graph, number):
    graph.camera()
    actions = graph.listen(JointTrajectory, "action")
    arguments = ["--params-file", TINY, "-r", f"__ns:={graph.namespace}"]
    arguments += ["-p", "timing.period_ms:=100.0", "-p", "timing.deadline_ms:=100.0"]
    launch, node = launched("directly", "-m", "vla_edge_ros.ros.reasoning_node", "--ros-args", *arguments)
    graph.wait_until(lambda: len(actions) > 5, "actions")
    launch.send_signal(number)
    graph.wait_until(lambda: not is_alive(node), "the node's end")
    graph.wait_until(lambda: not any(list(actions[-1].points[0].positions)[:-1]), "zero motion")


def test_a_node_outlives_the_thread_that_started_it(launched, graph):
    """The trap of PR_SET_PDEATHSIG, which fires when the parent's thread ends."""
    from sensor_msgs.msg import Image

    images = graph.listen(Image, "image")
    arguments = ["--ros-args", "-r", f"__ns:={graph.namespace}"]
    launch, node = launched("thread", "-m", "vla_edge_ros.ros.replay_node", *arguments)
    graph.wait_until(lambda: len(images) > 100, "images")
    assert is_alive(node)
    launch.kill()
    graph.wait_until(lambda: not is_alive(node), "the node's end")


def run_replay(environment: dict[str, str], *parameters: str) -> tuple[int, str]:
    ran = subprocess.run(
        [sys.executable, "-m", "vla_edge_ros.ros.replay_node", "--ros-args", *parameters],
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return ran.returncode, ran.stderr


def test_a_launch_that_is_gone_before_its_node_ends_it_at_once():
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    code, log = run_replay({LAUNCH_PID: str(gone.pid)})
    assert code == 0 and "Traceback" not in log


def test_what_is_no_process_is_named_and_the_node_runs(tmp_path):
    from PIL import Image

    Image.new("RGB", (4, 4)).save(tmp_path / "1.png")
    once = ["-p", f"source:={tmp_path}", "-p", "loop:=false", "-p", "wait_for_subscriber:=never"]
    code, log = run_replay({LAUNCH_PID: "launch"}, *once)
    assert code == 0 and "cannot watch the launch process 'launch'" in log and "after 1 images" in log
