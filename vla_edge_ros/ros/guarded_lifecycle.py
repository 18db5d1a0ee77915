# SPDX-License-Identifier: Apache-2.0
"""A lifecycle node that outlives its transitions and callbacks: whatever ends one, nothing stays half-done.

All callbacks are in the node's own callback group, which runs one at a time in any executor. Transitions may
also be asked for by a thread that is not the executor's: ``turn`` orders both.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import traceback
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.qos import QoSProfile
from rclpy.subscription import Subscription

from vla_edge_ros.errors import VlaEdgeError
from vla_edge_ros.ros.faults import FaultLog
from vla_edge_ros.ros.interrupts import Interrupted
from vla_edge_ros.ros.qos import OnMismatch, subscribe

SUCCESS, FAILURE = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE


class GuardedLifecycleNode(LifecycleNode):
    """Subclasses say what the transitions do; ``start`` and ``stop`` are for who has no lifecycle manager."""

    def __init__(self, node_name: str, **node_args: Any):
        super().__init__(node_name, **node_args)
        self.turn = threading.RLock()
        self.faults = FaultLog(self.get_logger().error)
        self._listening: list[Subscription] = []

    @abstractmethod
    def configure(self) -> None:
        """Make everything; where it raises, ``release`` is called."""

    @abstractmethod
    def activate(self) -> None:
        """Begin; where it raises, nothing has begun."""

    @abstractmethod
    def halt(self) -> None:
        """End what ``activate`` began. Safe to call at any time."""

    @abstractmethod
    def release(self) -> None:
        """Undo a configuration, whole or partial. Raises nothing; safe to call at any time."""

    def start(self) -> None:
        """Configure and activate. A failure is logged, the node lives."""
        if self.trigger_configure() == SUCCESS:
            self.trigger_activate()

    def stop(self) -> None:
        """End what runs and give everything back. Safe to call twice, and after whatever went wrong."""
        with self.turn:
            # Not possible after a shutdown, nor where somebody else's signal broke off a transition.
            with contextlib.suppress(RuntimeError):
                self.trigger_shutdown()
            self.release()

    def destroy_node(self) -> None:
        """Also release: threads would outlive the node."""
        with self.turn:
            self.release()
        super().destroy_node()

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        return self._attempt("configure", self.configure, on_failure=self.release)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        with self.turn:
            result = self._attempt("activate", self.activate, on_failure=lambda: None)
            return super().on_activate(state) if result == SUCCESS else result

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        with self.turn:
            if self._attempt("deactivate", self.halt, on_failure=self.release) == SUCCESS:
                return super().on_deactivate(state)
        return TransitionCallbackReturn.ERROR

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        with self.turn:
            self.release()
        return SUCCESS

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        return self.on_cleanup(state)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """After an unexpected exception in a transition: unconfigured, from where all can be tried again."""
        return self.on_cleanup(state)

    def listen(
        self,
        message_type: type,
        topic: str,
        callback: Callable[..., None],
        qos: QoSProfile,
        on_mismatch: OnMismatch,
    ) -> Subscription:
        """A subscription until ``unsubscribe``."""
        guarded = self.guarded(callback, f"in the callback of {topic}")
        subscription = subscribe(self, message_type, topic, guarded, qos, on_mismatch)
        self._listening.append(subscription)
        return subscription

    def guarded(self, callback: Callable[..., None], where: str) -> Callable[..., None]:
        """As ``callback``, in turn with transitions; an exception in it is a fault and ends nothing."""

        @functools.wraps(callback)  # rclpy looks at the signature: with the message alone, or also its info
        def run(*received: Any) -> None:
            try:
                with self.turn:
                    callback(*received)
            except Exception:  # rclpy ends its spin on any; the next message may be a good one
                self.faults.report(f"{where}:\n{traceback.format_exc()}")

        return run

    def unsubscribe(self) -> None:
        """End what ``listen`` began."""
        while self._listening:
            self.destroy_subscription(self._listening.pop())

    def _attempt(
        self, what: str, transition: Callable[[], None], on_failure: Callable[[], None]
    ) -> TransitionCallbackReturn:
        """rclpy drops the traceback of an exception in a transition; and what a user can mend is no error."""
        with self.turn:
            try:
                transition()
            except VlaEdgeError as error:
                self.faults.report(f"cannot {what}: {error}", lasting=True)
            except Interrupted:
                self.get_logger().info(f"asked to end: does not {what}")
            except Exception:  # whatever a broken installation throws: the node must stay to tell about it
                self.faults.report(f"cannot {what}:\n{traceback.format_exc()}", lasting=True)
            except BaseException:  # a KeyboardInterrupt, where somebody else's program has this node
                on_failure()
                raise
            else:
                self.faults.clear()
                return SUCCESS
            on_failure()
            return FAILURE
