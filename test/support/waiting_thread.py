# SPDX-License-Identifier: Apache-2.0
"""A thread inside a wait of the extension."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any


def waiting(wait: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """A thread that is inside ``wait``, most likely, and the list that takes its answer."""
    entered, answers = threading.Event(), []

    def run() -> None:
        entered.set()
        answers.append(wait())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    entered.wait()
    until_ns = time.monotonic_ns() + 30_000_000
    while time.monotonic_ns() < until_ns:
        pass
    return thread, answers
