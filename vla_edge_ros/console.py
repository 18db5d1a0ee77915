# SPDX-License-Identifier: Apache-2.0
"""What every program of this package does at its end.

``program | head`` is no error, and an error of this package's own is one line, without a traceback.
"""

from __future__ import annotations

import errno
import functools
import os
import select
import sys
from collections.abc import Callable
from typing import TextIO, TypeVar

from vla_edge_ros.errors import VlaEdgeError

R = TypeVar("R")

READER_LEFT = 128 + 13  # what a shell reports of a program that SIGPIPE ended


def console_program(main: Callable[..., R]) -> Callable[..., R]:
    """Decorates a ``main``: where who read its output has left, it ends quietly with code ``READER_LEFT``,
    and with 1 and one line for a ``VlaEdgeError``.

    By an exception, not by the signal SIGPIPE: a node must unwind, so that zero motion is its last message.
    """

    @functools.wraps(main)
    def run(*args: object, **kwargs: object) -> R:
        try:
            try:
                return main(*args, **kwargs)
            finally:
                sys.stdout.flush()  # what is still buffered fails here, not in the interpreter's last breath
        except VlaEdgeError as error:
            print(f"error: {error}", file=sys.stderr)
            raise SystemExit(1) from error
        except OSError as error:  # EIO: a terminal that is gone, as when `ros2 launch` was killed
            if error.errno not in (errno.EPIPE, errno.EIO) or not _silence_unread():
                raise  # another pipe or socket of the program's: an error like any other
            raise SystemExit(READER_LEFT) from None

    return run


def _silence_unread() -> bool:
    """Point the standard streams that nobody reads any more to nowhere; whether there was one."""
    unread = [stream for stream in (sys.stdout, sys.stderr) if _reader_left(stream)]
    for stream in unread:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    return bool(unread)


def _reader_left(stream: TextIO) -> bool:
    """Asked of the pipe itself: an unbuffered stream forgets that a write failed."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):  # closed, or replaced by something in memory
        return False
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
