# SPDX-License-Identifier: Apache-2.0
"""What ``ros2 run`` and ``ros2 launch`` start: signals are answered before anything heavy is imported.

Importing takes a second or more. A launch whose camera cannot be opened interrupts the reasoner in it, and
Python's own answer would be a traceback out of the middle of some library.
"""

from __future__ import annotations

import importlib
import os
import signal
from typing import Any


def reasoning_node() -> int:
    return _main_of("reasoning_node")


def replay_node() -> int:
    return _main_of("replay_node")


def tabletop_node() -> int:
    return _main_of("tabletop_node")


def demo() -> int:
    return _main_of("demo")


def monitor() -> int:
    return _main_of("monitor")


def _main_of(module: str) -> int:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    # Its main sets handlers that know what to stop.
    code: int = importlib.import_module(f"vla_edge_ros.ros.{module}").main()
    return code


def _leave(number: int, frame: Any) -> None:
    os._exit(0)  # nothing is held yet, and an exception could be caught by whoever imports
