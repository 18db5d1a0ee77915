# SPDX-License-Identifier: Apache-2.0
"""What the ROS-free modules say through ``logging``, said by a node."""

from __future__ import annotations

import logging

from rclpy.impl.rcutils_logger import RcutilsLogger


class LogBridge(logging.Handler):
    """Forwards one Python logger to a node's; ``close`` ends that."""

    def __init__(self, source: logging.Logger, target: RcutilsLogger):
        super().__init__()
        self._source, self._target = source, target
        self._level_before = source.level
        source.setLevel(logging.INFO)
        source.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        # One line each: rclpy ties a call site to its severity.
        if record.levelno >= logging.ERROR:
            self._target.error(record.getMessage())
        elif record.levelno >= logging.WARNING:
            self._target.warning(record.getMessage())
        else:
            self._target.info(record.getMessage())

    def close(self) -> None:
        self._source.removeHandler(self)
        self._source.setLevel(self._level_before)
        super().close()
