# SPDX-License-Identifier: Apache-2.0
"""What the ROS-free modules say through ``logging``, said by a node."""

from __future__ import annotations

import logging

from rclpy.impl.rcutils_logger import RcutilsLogger

from vla_edge_ros.errors import printable


class LogBridge(logging.Handler):
    """Forwards one Python logger to a node's; ``close`` ends that."""

    def __init__(self, source: logging.Logger, target: RcutilsLogger):
        super().__init__()
        self._source, self._target = source, target
        self._level_before = source.level
        source.setLevel(logging.INFO)
        source.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._say(record.levelno, printable(self.format(record)))
        except Exception:  # who logs must not be ended by it
            self.handleError(record)

    def _say(self, level: int, text: str) -> None:
        # One line each: rclpy ties a call site to its severity.
        if level >= logging.ERROR:
            self._target.error(text)
        elif level >= logging.WARNING:
            self._target.warning(text)
        else:
            self._target.info(text)

    def close(self) -> None:
        self._source.removeHandler(self)
        self._source.setLevel(self._level_before)
        super().close()
