# SPDX-License-Identifier: Apache-2.0
"""Where a signal may break off what takes long: in blocks that say so, and nowhere else.

A signal handler that raises wherever the program happens to be leaves half-done what must be whole: a
transition, a file, a release. One that only asks has to wait, for minutes where weights are loaded. So a
block that may end at any point, since its owner cleans up behind it, is marked ``breakable``; everywhere
else the request waits until somebody looks. Signals belong to the process, so this module's state does too.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Interrupted(BaseException):
    """Leaves a breakable block; not an ``Exception``, so that no guard inside of it keeps it."""


class _Break:
    """Written by the main thread only, where signal handlers run."""

    is_asked = False
    is_possible = False


@contextmanager
def breakable() -> Iterator[None]:
    """May end with ``Interrupted`` at any point, once; at once where a break was asked for before.

    In the main thread only: elsewhere nothing happens. Not to be nested.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    try:
        _Break.is_possible = True
        if _Break.is_asked:
            raise Interrupted
        yield
    finally:
        _Break.is_possible = False


def break_off() -> None:
    """From a signal handler: ends the breakable block that runs, and every later one as it begins."""
    _Break.is_asked = True
    if _Break.is_possible:
        _Break.is_possible = False  # once: what cleans up behind it is not broken off again
        raise Interrupted


def allow_work() -> None:
    """Forget that a break was asked for: a new run begins."""
    _Break.is_asked = False
