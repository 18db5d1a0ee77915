# SPDX-License-Identifier: Apache-2.0
"""A terminal as a screen: entered, drawn on, and given back as it was.

Only ANSI sequences that every terminal of today has (xterm's alternate screen, cursor off). The terminal's
mode is not changed: Ctrl-C and Ctrl-Z stay signals, and nothing but ``leave`` is needed to restore it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

ENTER = "\x1b[?1049h\x1b[?25l\x1b[2J"
LEAVE = "\x1b[?25h\x1b[?1049l"
HOME, TO_LINE_END, TO_SCREEN_END = "\x1b[H", "\x1b[K", "\x1b[J"
DEFAULT_SIZE = (80, 24)


def can_draw(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether ``stream`` is a terminal with a cursor that can be moved."""
    return stream.isatty() and environment.get("TERM", "dumb") != "dumb"


def has_colour(environment: Mapping[str, str]) -> bool:
    """``NO_COLOR``, whatever it is set to, turns colours off (no-color.org)."""
    return not environment.get("NO_COLOR")


def is_unicode(stream: TextIO) -> bool:
    """Whether the stream's encoding has block characters."""
    return (stream.encoding or "").lower().replace("-", "").startswith("utf")


class Terminal:
    """Draws on the terminal behind a file ``descriptor``; ``leave`` is safe to call at any time.

    ``redraw`` is called when the program goes on after Ctrl-Z. Used by the main thread.
    """

    def __init__(self, descriptor: int, encoding: str = "utf-8"):
        self._descriptor = descriptor
        self._encoding = encoding
        self._is_entered = False
        self._before: Any = None
        self.redraw: Callable[[], None] = lambda: None

    def size(self) -> tuple[int, int]:
        """Columns and rows, now; a terminal that does not know is taken for one of 80 by 24."""
        try:
            size = os.get_terminal_size(self._descriptor)
        except OSError:
            return DEFAULT_SIZE
        return size.columns or DEFAULT_SIZE[0], size.lines or DEFAULT_SIZE[1]

    def enter(self) -> None:
        # In this order: a Ctrl-Z that comes meanwhile must find all that it needs to give the screen back.
        self._before = signal.getsignal(signal.SIGTSTP) or signal.SIG_DFL
        self._is_entered = True
        if self._before != signal.SIG_IGN:  # else started where there are no jobs to suspend
            signal.signal(signal.SIGTSTP, self._suspend)
        self._write(ENTER)

    def leave(self) -> None:
        if self._is_entered:
            self._is_entered = False
            signal.signal(signal.SIGTSTP, self._before)
            self._write(LEAVE)

    def draw(self, lines: Sequence[str]) -> None:
        """In place of what is there. No line break behind the last one: it would scroll a full screen."""
        if self._is_entered:
            body = "\r\n".join(f"{line}{TO_LINE_END}" for line in lines)
            self._write(f"{HOME}{body}{TO_SCREEN_END}")

    def _suspend(self, number: int, frame: Any) -> None:
        """Ctrl-Z: the shell gets its screen back, and ``fg`` shows this one again."""
        self.leave()
        os.kill(os.getpid(), signal.SIGTSTP)  # stops here, until SIGCONT
        self.enter()
        self.redraw()

    def _write(self, text: str) -> None:
        """Past Python's buffers, which a signal handler must not enter twice."""
        data = text.encode(self._encoding, "backslashreplace")
        while data:
            data = data[os.write(self._descriptor, data) :]
