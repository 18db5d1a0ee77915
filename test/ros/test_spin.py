# SPDX-License-Identifier: Apache-2.0
"""The executables as processes: what a signal leads to, and what a mistake says."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="the executables need rclpy")

from diagnostic_msgs.msg import DiagnosticArray  # noqa: E402
from trajectory_msgs.msg import JointTrajectory  # noqa: E402

pytestmark = pytest.mark.ros

REPOSITORY = Path(__file__).resolve().parents[2]
TINY = str(REPOSITORY / "config" / "tiny.yaml")
START_S = 60  # a busy machine takes long to import
CALM = ["-p", "timing.period_ms:=100.0", "-p", "timing.deadline_ms:=100.0"]


class Process:
    """An executable of this package, its lines of output as they come."""

    def __init__(self, module: str, *args: str):
        self.lines: list[str] = []
        self._popen = subprocess.Popen(
            [sys.executable, "-u", "-c", f"import sys; from {module} import main; sys.exit(main())", *args],
            cwd=REPOSITORY,
            env={**os.environ, "RCUTILS_COLORIZED_OUTPUT": "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._popen.stdout:
            self.lines.append(line)

    @property
    def output(self) -> str:
        return "".join(self.lines)

    def signal(self, number: int) -> None:
        self._popen.send_signal(number)

    def wait(self, timeout_s: float = START_S) -> int:
        code = self._popen.wait(timeout_s)
        self._reader.join(timeout_s)
        return code

    def kill(self) -> None:
        self._popen.kill()
        self._popen.wait()


@pytest.fixture
def start():
    processes = []

    def make(module: str, *args: str) -> Process:
        processes.append(Process(f"vla_edge_ros.ros.{module}", *args))
        return processes[-1]

    yield make
    for process in processes:
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_on_a_signal_zero_motion_is_the_last_message_and_the_exit_code_is_0(start, graph, number):
    graph.camera()
    actions = graph.listen(JointTrajectory, "action")
    statuses = graph.listen(DiagnosticArray, "status")
    process = start(
        "reasoning_node", "--ros-args", "--params-file", TINY, "-r", f"__ns:={graph.namespace}", *CALM
    )
    graph.wait_until(lambda: len(actions) > 5 or process._popen.poll() is not None, "actions")
    process.signal(number)
    assert process.wait() == 0, process.output
    graph.wait_until(
        lambda: "stopped" in {pair.value for pair in statuses[-1].status[0].values}, "last words"
    )
    # Actions come on another topic: the last may arrive after the last words.
    graph.wait_until(lambda: not any(list(actions[-1].points[0].positions)[:-1]), "zero motion")
    threading.Event().wait(0.3)  # for whatever might come behind it
    values = list(actions[-1].points[0].positions)
    assert not any(values[:-1])
    assert values[-1] == actions[-2].points[0].positions[-1]
    assert "Traceback" not in process.output


def test_a_signal_during_start_up_ends_it_without_a_traceback(start):
    process = start("reasoning_node", "--ros-args", "--params-file", TINY)
    threading.Event().wait(1.5)  # anywhere in the imports or the start
    process.signal(signal.SIGTERM)
    code = process.wait()
    # Before main runs, Python's own handling applies: the signal ends it.
    assert code in (0, -signal.SIGTERM)
    assert "Traceback" not in process.output


def test_several_signals_change_nothing_about_a_clean_stop(start):
    process = start("demo", "--ros-args", "-r", "__ns:=/several", *CALM)
    deadline = threading.Event()
    for _ in range(START_S * 10):
        if "active" in process.output or deadline.wait(0.1):
            break
    for _ in range(5):
        process.signal(signal.SIGINT)
    assert process.wait() == 0, process.output
    assert "Traceback" not in process.output


def test_the_demo_ends_after_its_duration_with_a_summary(start):
    process = start("demo", "--duration", "3", "--ros-args", "-r", "__ns:=/duration", *CALM)
    assert process.wait() == 0, process.output
    assert " 2 s | camera" in process.output
    for subject in ("camera", "cycles", "actions", "deadline", "latency", "memory"):
        assert any(line.startswith(subject) for line in process.lines), process.output


def test_the_demo_says_what_is_wrong_with_its_source(start, tmp_path):
    missing = str(tmp_path / "nothing.mp4")
    process = start("demo", "--source", missing, "--duration", "3")
    assert process.wait() == 1
    assert missing in process.output and "Traceback" not in process.output


def test_the_demo_fails_where_the_reasoner_cannot_start(start):
    process = start("demo", "--duration", "3", "--ros-args", "-p", "timing.margin_ms:=40.0")
    assert process.wait() == 1
    assert "timing.margin_ms" in process.output and "Traceback" not in process.output


def test_a_parameter_file_that_cannot_be_read_is_one_line(start, tmp_path):
    broken = tmp_path / "broken.yaml"
    broken.write_text("/**:\n  ros__parameters:\n    a: [1, 'x']\n")
    process = start("reasoning_node", "--ros-args", "--params-file", str(broken))
    assert process.wait() == 1
    assert str(broken) in process.output and "Traceback" not in process.output
