# SPDX-License-Identifier: Apache-2.0
"""What went wrong inside the node: nothing may end it, and nothing may be swallowed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from vla_edge_ros.errors import printable

SHOWN_S = 10.0  # how long a past fault stays an ERROR in the diagnostics
LOG_EVERY_S = 5.0  # a fault in every cycle must not flood the log


class FaultLog:
    """Logs tracebacks, remembers the last passing and the last lasting fault.

    Any thread may report; the executor thread reads.
    """

    def __init__(self, log_error: Callable[[str], object], steady_s: Callable[[], float] = time.monotonic):
        self._log_error = log_error
        self._steady_s = steady_s
        self._lock = threading.Lock()
        self._passing = self._lasting = ""
        self._until_s = 0.0
        self._logged_s = -LOG_EVERY_S
        self.count = 0

    def report(self, text: str, *, lasting: bool = False) -> None:
        """Take a traceback or a message; the last line of it becomes the diagnostics' text.

        ``lasting``: shown until ``clear``, for what stays wrong until somebody acts.
        """
        text = printable(text).strip() or "an error without a text"
        now_s = self._steady_s()
        with self._lock:
            self.count += 1
            last_line = text.splitlines()[-1]
            if lasting:
                self._lasting = last_line
            else:
                self._passing, self._until_s = last_line, now_s + SHOWN_S
            is_logged = lasting or now_s - self._logged_s >= LOG_EVERY_S
            if is_logged:
                self._logged_s = now_s
        if is_logged:
            self._log_error(f"fault {self.count}: {text}")

    def clear(self) -> None:
        with self._lock:
            self._passing = self._lasting = ""

    def current(self) -> str:
        """The last passing fault while it is shown, else the lasting one, else empty."""
        with self._lock:
            return self._passing if self._passing and self._steady_s() < self._until_s else self._lasting
