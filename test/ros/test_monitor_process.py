# SPDX-License-Identifier: Apache-2.0
"""The monitor as a process of its own, in a pipe and on a terminal, while a reasoner comes and goes."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="the monitor needs rclpy")

from lifecycle_msgs.msg import Transition  # noqa: E402
from node_under_test import change  # noqa: E402

from vla_edge_ros.console import READER_LEFT  # noqa: E402
from vla_edge_ros.monitor.terminal import ENTER, LEAVE  # noqa: E402

pytestmark = pytest.mark.ros
REPOSITORY = Path(__file__).resolve().parents[2]
# As a terminal emulator starts it: the pseudo-terminal is the one that Ctrl-C comes from.
ON_A_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "vla_edge_ros.ros.monitor", *sys.argv[1:]])
"""


def test_lines_tell_of_a_reasoner_that_comes_and_goes(start, graph):
    monitor = start("monitor", "--namespace", graph.namespace)
    monitor.wait_for(f"waiting for {graph.namespace}/status: nobody publishes it")
    graph.camera(60.0)
    reasoner = graph.reasoner()
    monitor.wait_for("acted, fresh | cycles")
    monitor.wait_for("deadline 100.0 ms")
    graph.wait_until(lambda: reasoner.metrics.cycles > 5, "cycles whose numbers can go back")
    change(graph, Transition.TRANSITION_DEACTIVATE)
    monitor.wait_for("stopped ")
    monitor.wait_for("Action: inactive")
    change(graph, Transition.TRANSITION_ACTIVATE)
    monitor.wait_for("WARN Restart: a new run")
    monitor.signal(signal.SIGTERM)
    assert monitor.wait() == 0 and "Traceback" not in monitor.output and "\x1b" not in monitor.output


class OnTerminal:
    """The monitor on a pseudo-terminal of its own; ``shown`` is all that came, ``frame`` the last drawing."""

    def __init__(self, *args: str, **environment: str):
        self._outer, inner = pty.openpty()
        self.shown = ""
        self.resize(100, 30)
        self._process = subprocess.Popen(
            [sys.executable, "-c", ON_A_TERMINAL, *args],
            cwd=REPOSITORY,
            env={**os.environ, "TERM": "xterm", "PYTHONUTF8": "1", **environment},
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
        )
        os.close(inner)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        data = b""
        while True:
            try:
                data += os.read(self._outer, 65536)
            except OSError:  # the other end is closed
                return
            self.shown = data.decode(errors="replace")

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._outer, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, key: bytes) -> None:
        os.write(self._outer, key)

    def frame(self) -> list[str]:
        """The lines of the last whole drawing, without colours."""
        frames = self.shown.split("\x1b[H")[1:]
        whole = [frame for frame in frames if frame.endswith("\x1b[J")]
        return re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", whole[-1]).split("\r\r\n") if whole else []

    def has(self, words: str) -> bool:
        assert self._process.poll() is None, self.shown
        return any(words in line for line in self.frame())

    def wait(self) -> int:
        code = self._process.wait(60)
        self._reader.join(60)
        return code

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(60)
        os.close(self._outer)


@pytest.fixture
def on_terminal():
    made = []

    def run(*args: str, **environment: str) -> OnTerminal:
        made.append(OnTerminal(*args, **environment))
        return made[-1]

    yield run
    for each in made:
        each.close()


def test_a_terminal_shows_the_graph_and_ctrl_c_gives_it_back(on_terminal, graph):
    monitor = on_terminal("--namespace", graph.namespace)
    graph.wait_until(lambda: monitor.has("nobody publishes it"), "what it waits for")
    graph.camera(60.0)
    graph.reasoner()
    graph.wait_until(lambda: monitor.has("acted, fresh") and monitor.has("deadline 100.0 ms"), "the figures")
    assert "\x1b[32m" in monitor.shown
    monitor.resize(40, 6)
    graph.wait_until(
        lambda: 0 < len(monitor.frame()) <= 6 and max(map(len, monitor.frame())) < 40, "a small frame"
    )
    monitor.resize(120, 40)
    graph.wait_until(lambda: monitor.has("health"), "a large frame")
    monitor.press(b"\x03")
    assert monitor.wait() == 0
    assert monitor.shown.count(ENTER) == 1 and monitor.shown.endswith(LEAVE)
    assert "Traceback" not in monitor.shown


def test_no_color_leaves_only_the_cursor_s_sequences(on_terminal, wait_until):
    monitor = on_terminal("--namespace", "nobody/here", NO_COLOR="1")
    wait_until(lambda: monitor.has("waiting for /nobody/here/status"))
    assert not re.search(r"\x1b\[[\d;]*m", monitor.shown)
    monitor.press(b"\x03")
    assert monitor.wait() == 0 and monitor.shown.endswith(LEAVE)


def test_a_dumb_terminal_gets_lines(on_terminal, wait_until):
    monitor = on_terminal("--namespace", "nobody/here", TERM="dumb")
    wait_until(lambda: "waiting for /nobody/here/status" in monitor.shown)
    monitor.press(b"\x03")
    assert monitor.wait() == 0 and "\x1b" not in monitor.shown


def run(*args: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "vla_edge_ros.ros.monitor", *args],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_monitor_whose_reader_leaves_ends_quietly():
    process = run("--namespace", "nobody/here")
    assert "waiting for" in process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == "" and process.wait(60) == READER_LEFT


def test_the_duration_ends_it_and_a_namespace_may_be_remapped():
    began_s = time.monotonic()
    process = run("--duration", "0.1", "--ros-args", "-r", "__ns:=/robot1/vla")
    output, log = process.communicate(timeout=60)
    assert process.returncode == 0 and log == "" and "waiting for /robot1/vla/status" in output
    assert time.monotonic() - began_s > 0.1


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--namespace", "a b"], "error: --namespace must be a ROS namespace, got 'a b'"),
        (
            ["--ros-args", "-p", "period:=1"],
            "error: period must be a parameter of this node, got an unknown name",
        ),
    ],
)
def test_a_mistake_is_one_line(args, says):
    process = run(*args)
    _, log = process.communicate(timeout=60)
    assert process.returncode == 1
    assert says in log and len(log.strip().splitlines()) == 1
