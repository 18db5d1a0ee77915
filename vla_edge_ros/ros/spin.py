# SPDX-License-Identifier: Apache-2.0
"""The main function of every executable: start nodes, spin, and stop them in order on a signal.

rclpy's own signal handlers invalidate the context before any callback runs, after which no stop action can
be published. So it gets none: the handlers here ask, break off what says that it may be (``interrupts.py``),
the nodes publish their last words, and then the context goes.
"""

from __future__ import annotations

import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, cast

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.logging import get_logger
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from vla_edge_ros.errors import VlaEdgeError
from vla_edge_ros.ros.interrupts import Interrupted, allow_work, break_off
from vla_edge_ros.ros.parent_watch import end_with_launch

SIGNALS = (signal.SIGINT, signal.SIGTERM)
POLL_S = 0.1  # how soon a signal is seen
PATIENCE_S = 2.0  # after the first signal; a callback that has not ended by then may never do so
FAULTS_IN_A_ROW = 100  # an executor that fails every time is broken for good


class Runnable(Protocol):
    """A node that ``run_nodes`` can run; the rest of ``rclpy.node.Node`` comes with it."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def destroy_node(self) -> None: ...


class StopRequest:
    """Asks ``run_nodes`` to end. ``request`` may be called by any thread."""

    def __init__(self) -> None:
        # Plain values, not an Event: a handler that takes a lock can wait for the code that it interrupted.
        self._is_asked = False
        self._signal_s: float | None = None  # of the first one
        self._is_spinning = False
        self.exit_code = 0

    def request(self, exit_code: int = 0) -> None:
        """End soon, with this exit code."""
        self.exit_code = exit_code
        self._is_asked = True

    def is_requested(self) -> bool:
        return self._is_asked

    @contextmanager
    def signals_caught(self) -> Iterator[None]:
        """SIGINT and SIGTERM ask to stop, and break off what may be broken off.

        Afterwards they do what they did before, unless one came: a process that was told to end goes on to
        its end, however often it is told.
        """
        allow_work()
        before = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, signal.SIG_IGN if self._signal_s is not None else handler)

    def spinning(self) -> None:
        """From here on the executor looks at the request after each callback."""
        self._is_spinning = True

    def stopping(self) -> None:
        """From here on signals change nothing: the stop is under way and bounded in time."""
        self._is_spinning = False
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)

    def _on_signal(self, number: int, frame: Any) -> None:
        now_s = time.monotonic()
        if self._signal_s is None:
            self._signal_s = now_s
        self._is_asked = True
        break_off()
        if self._is_spinning and now_s - self._signal_s > PATIENCE_S:
            raise Interrupted  # out of a callback that hangs; zero motion must still go out


def run_nodes(create: Callable[[StopRequest], Iterable[Runnable]], args: Sequence[str] | None = None) -> int:
    """Run what ``create`` makes until a signal or ``StopRequest.request``; return the exit code.

    Nodes are started and stopped in the order given: put first what must be safe first. A problem that the
    user can mend is one line and exit code 1; a stop by signal is 0. Signals are caught in the main thread.
    """
    stop = StopRequest()
    nodes: list[Runnable] = []
    with stop.signals_caught():
        try:
            end_with_launch()
            _init(args)
            for node in create(stop):  # one by one: where the second cannot be made, the first is stopped
                nodes.append(node)
            executor = SingleThreadedExecutor()
            for node in nodes:
                executor.add_node(cast(Node, node))
            for node in nodes:
                if not stop.is_requested():
                    node.start()
            stop.spinning()
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
        try:
            node.destroy_node()
        except Exception:
            get_logger("vla_edge_ros").error(f"exception while ending a node:\n{traceback.format_exc()}")
