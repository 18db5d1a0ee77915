# SPDX-License-Identifier: Apache-2.0
"""The main function of every executable: start nodes, spin, and stop them in order on a signal.

rclpy's own signal handlers invalidate the context before any callback runs, after which no stop action can
be published. So it gets none: the handlers here only ask, the nodes publish their last words, and then the
context goes.
"""

from __future__ import annotations

import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, cast

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.logging import get_logger
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from vla_edge_ros.errors import VlaEdgeError

SIGNALS = (signal.SIGINT, signal.SIGTERM)
POLL_S = 0.1  # how soon a signal is seen
FAULTS_IN_A_ROW = 100  # an executor that fails every time is broken for good


class Runnable(Protocol):
    """A node that ``run_nodes`` can run; the rest of ``rclpy.node.Node`` comes with it."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def destroy_node(self) -> None: ...


class Interrupted(BaseException):
    """Breaks off a start-up (a model's load takes long); not an ``Exception``, so that no guard keeps it."""


class StopRequest:
    """Asks ``run_nodes`` to end. ``request`` may be called by any thread."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._breaks_off = True
        self.exit_code = 0

    def request(self, exit_code: int = 0) -> None:
        """End soon, with this exit code."""
        self.exit_code = exit_code
        self._asked.set()

    def is_requested(self) -> bool:
        return self._asked.is_set()

    @contextmanager
    def signals_caught(self) -> Iterator[None]:
        """SIGINT and SIGTERM ask to stop; a second one breaks off what does not come back to the executor."""
        before = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def started(self) -> None:
        """The first signal no longer breaks off."""
        self._breaks_off = False

    def stopping(self) -> None:
        """From here on signals change nothing: the stop is under way and bounded in time."""
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)

    def _on_signal(self, number: int, frame: Any) -> None:
        breaks_off, self._breaks_off = self._breaks_off, True
        self._asked.set()
        if breaks_off:
            raise Interrupted


def run_nodes(create: Callable[[StopRequest], Sequence[Runnable]], args: Sequence[str] | None = None) -> int:
    """Run what ``create`` makes until a signal or ``StopRequest.request``; return the exit code.

    Nodes are started and stopped in the order given: put first what must be safe first. A problem that the
    user can mend is one line and exit code 1; a stop by signal is 0.
    """
    stop = StopRequest()
    nodes: list[Runnable] = []
    with stop.signals_caught():
        try:
            _init(args)
            nodes += create(stop)
            executor = SingleThreadedExecutor()
            for node in nodes:
                executor.add_node(cast(Node, node))
            for node in nodes:
                node.start()
            stop.started()
            return _spin(executor, stop)
        except Interrupted:
            return 0
        except VlaEdgeError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        finally:
            stop.stopping()
            _stop_in_order(nodes)
            rclpy.try_shutdown()


def _init(args: Sequence[str] | None) -> None:
    """``rclpy.init``; a parameter file or a ROS argument that cannot be read is the user's to mend."""
    try:
        rclpy.init(args=None if args is None else list(args), signal_handler_options=SignalHandlerOptions.NO)
    except RuntimeError as error:  # the base of rclpy's RCLError and UnknownROSArgsError
        raise VlaEdgeError(str(error)) from error


def _spin(executor: SingleThreadedExecutor, stop: StopRequest) -> int:
    faults = 0
    while not stop.is_requested():
        try:
            executor.spin_once(timeout_sec=POLL_S)
            faults = 0
        except ExternalShutdownException:
            return 0
        except Exception:  # a callback without a guard of its own: told, and the other callbacks go on
            faults += 1
            get_logger("vla_edge_ros").error(f"exception in a callback:\n{traceback.format_exc()}")
            if faults >= FAULTS_IN_A_ROW:
                return 1
    return stop.exit_code


def _stop_in_order(nodes: Sequence[Runnable]) -> None:
    for node in nodes:
        try:
            node.stop()
        except Exception:  # the other nodes must be stopped too
            get_logger("vla_edge_ros").error(f"exception while stopping:\n{traceback.format_exc()}")
    for node in nodes:
        node.destroy_node()
