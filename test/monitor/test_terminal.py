# SPDX-License-Identifier: Apache-2.0
"""A pseudo-terminal: what is written to it, its size, what it is given back as."""

import fcntl
import io
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from types import SimpleNamespace

import pytest

from vla_edge_ros.monitor.terminal import (
    DEFAULT_SIZE,
    ENTER,
    LEAVE,
    Terminal,
    can_draw,
    has_colour,
    is_unicode,
)


@pytest.fixture
def pseudo():
    """The descriptor of a terminal, a function that sets its size, and two that read what it shows: ``read``
    something of it, ``read_all`` that was written so far."""
    outer, inner = pty.openpty()

    def resize(columns: int, rows: int) -> None:
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read() -> str:
        return os.read(outer, 100_000).decode()

    def read_all() -> str:
        """One read may return a part."""
        os.write(inner, b"END")
        shown = ""
        while not shown.endswith("END"):
            shown += read()
        return shown.removesuffix("END")

    yield SimpleNamespace(inner=inner, resize=resize, read=read, read_all=read_all)
    os.close(outer)
    os.close(inner)


def test_the_size_is_asked_each_time(pseudo):
    terminal = Terminal(pseudo.inner)
    assert terminal.size() == DEFAULT_SIZE  # a new one says 0 by 0
    for size in ((132, 43), (20, 5)):
        pseudo.resize(*size)
        assert terminal.size() == size


def test_without_a_terminal_there_is_a_size_all_the_same(tmp_path):
    with (tmp_path / "file").open("w") as file:
        assert Terminal(file.fileno()).size() == DEFAULT_SIZE


def test_the_terminal_is_given_back_as_it_was(pseudo):
    mode, handler = termios.tcgetattr(pseudo.inner), signal.getsignal(signal.SIGTSTP)
    terminal = Terminal(pseudo.inner)
    terminal.leave()  # nothing was entered
    terminal.draw(["not drawn"])
    terminal.enter()
    terminal.draw(["one", "two"])
    terminal.leave()
    terminal.leave()
    shown = pseudo.read_all().replace("\r\r\n", "\r\n")  # the terminal makes "\r\n" of each "\n"
    assert shown == f"{ENTER}\x1b[Hone\x1b[K\r\ntwo\x1b[K\x1b[J{LEAVE}"
    assert termios.tcgetattr(pseudo.inner) == mode and signal.getsignal(signal.SIGTSTP) == handler


def test_where_there_are_no_jobs_the_suspend_signal_stays_ignored(pseudo):
    before = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    try:
        terminal = Terminal(pseudo.inner)
        terminal.enter()
        assert signal.getsignal(signal.SIGTSTP) == signal.SIG_IGN
        terminal.leave()
        assert signal.getsignal(signal.SIGTSTP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTSTP, before)


def test_what_the_encoding_does_not_have_is_escaped(pseudo):
    terminal = Terminal(pseudo.inner, "ascii")
    terminal.enter()
    terminal.draw(["é\udce9"])
    terminal.leave()
    assert r"\xe9\udce9" in pseudo.read_all()


PROGRAM = """
import os, signal, sys, time
from vla_edge_ros.monitor.terminal import Terminal
terminal = Terminal(int(sys.argv[1]))
terminal.redraw = lambda: terminal.draw(["drawn again"])
terminal.enter()
while True:  # not signal.pause(): a signal just before it would be seen by the next one only
    time.sleep(0.02)
"""


def test_ctrl_z_gives_the_screen_back_and_fg_draws_it_again(pseudo):
    """In a group of its own below this process, as a shell's jobs are: else the kernel stops nothing."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(pseudo.inner)], pass_fds=[pseudo.inner], preexec_fn=os.setpgrp
    )
    try:
        shown = ""
        while ENTER not in shown:
            shown += pseudo.read()
        process.send_signal(signal.SIGTSTP)
        while LEAVE not in shown:
            shown += pseudo.read()
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        process.send_signal(signal.SIGCONT)
        while "drawn again" not in shown:
            shown += pseudo.read()
        assert shown == f"{ENTER}{LEAVE}{ENTER}\x1b[Hdrawn again\x1b[K\x1b[J"
    finally:
        process.kill()
        process.wait()


class Stream(io.StringIO):
    def __init__(self, is_terminal: bool, encoding: str = "utf-8"):
        super().__init__()
        self.isatty = lambda: is_terminal
        self._encoding = encoding

    @property
    def encoding(self) -> str:
        return self._encoding


@pytest.mark.parametrize(
    ("is_terminal", "environment", "drawn"),
    [
        (True, {"TERM": "xterm"}, True),
        (True, {"TERM": "dumb"}, False),
        (True, {}, False),
        (False, {"TERM": "xterm"}, False),
    ],
)
def test_only_a_terminal_with_a_cursor_is_drawn_on(is_terminal, environment, drawn):
    assert can_draw(Stream(is_terminal), environment) == drawn


def test_no_color_of_any_value_but_the_empty_one_turns_colours_off():
    assert [has_colour(e) for e in ({}, {"NO_COLOR": ""}, {"NO_COLOR": "0"}, {"NO_COLOR": "1"})] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("encoding", "has_blocks"),
    [("UTF-8", True), ("utf8", True), ("ANSI_X3.4-1968", False), ("latin-1", False)],
)
def test_blocks_need_unicode(encoding, has_blocks):
    assert is_unicode(Stream(True, encoding)) == has_blocks
