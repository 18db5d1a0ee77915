# SPDX-License-Identifier: Apache-2.0
"""The lifecycle node ``vla_reasoner``: images in, actions out.

It holds the parts together and turns lifecycle transitions into their calls. No inference runs in the
executor's thread; the reasoning thread and the watchdog thread belong to ``runtime.Reasoner``.
"""

from __future__ import annotations

import logging
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile
from rclpy.subscription import Subscription
from sensor_msgs.msg import Image
from std_msgs.msg import String

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.console import console_program
from vla_edge_ros.engines.base import Engine
from vla_edge_ros.engines.load import load_engine
from vla_edge_ros.errors import VlaEdgeError, WeightsError
from vla_edge_ros.ros.action_publisher import ActionPublisher
from vla_edge_ros.ros.command_line import CommandLine
from vla_edge_ros.ros.diagnostics import diagnose
from vla_edge_ros.ros.diagnostics_publisher import TOPIC as DIAGNOSTICS_TOPIC
from vla_edge_ros.ros.diagnostics_publisher import DiagnosticsPublisher
from vla_edge_ros.ros.faults import FaultLog
from vla_edge_ros.ros.frame_input import FrameInput
from vla_edge_ros.ros.health import ActionHealth
from vla_edge_ros.ros.health_watch import HealthWatch
from vla_edge_ros.ros.log_bridge import LogBridge
from vla_edge_ros.ros.parameters import NodeConfig, ParameterGate, declare, read
from vla_edge_ros.ros.qos import OnMismatch, image_qos, instruction_qos, subscribe
from vla_edge_ros.ros.run_recorder import RunRecorder
from vla_edge_ros.ros.run_report import FrameCounts
from vla_edge_ros.ros.spin import Runnable, StopRequest, run_nodes
from vla_edge_ros.ros.stamps import StampRules
from vla_edge_ros.runtime.action_sink import ObservedSink
from vla_edge_ros.runtime.metrics import MetricsSnapshot, RunMetrics
from vla_edge_ros.runtime.reasoner import Reasoner
from vla_edge_ros.types import CycleRecord, MemoryReport

# What the ROS-free modules log while this node runs.
BRIDGED_LOGGERS = tuple(f"vla_edge_ros.{name}" for name in ("runtime", "engines", "model", "recording"))

# Before an activation, other publishers on the action topic must have had time to be discovered.
DISCOVERY_S = 0.5

SUCCESS, FAILURE = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE


class ReasoningNode(LifecycleNode):
    """``start`` brings it up where the parameter ``autostart`` says so; ``stop`` ends it with zero motion."""

    def __init__(
        self,
        *,
        make_engine: Callable[[VlaConfig], Engine] = load_engine,
        observers: Sequence[Callable[[CycleRecord], None]] = (),
        **node_args: Any,
    ):
        super().__init__("vla_reasoner", automatically_declare_parameters_from_overrides=True, **node_args)
        self._created_s = time.monotonic()
        self._make_engine = make_engine
        self._observers = tuple(observers)
        self._recorder: RunRecorder | None = None
        self._is_active = False
        self._reasoner: Reasoner | None = None
        self._actions: ActionPublisher | None = None
        self._input: FrameInput | None = None
        self._listening: list[Subscription] = []
        self._memory = MemoryReport()
        self._engine_name = "none"
        self._faults = FaultLog(self.get_logger().error)
        self._log_bridges = [
            LogBridge(logging.getLogger(name), self.get_logger()) for name in BRIDGED_LOGGERS
        ]
        declare(self, NodeConfig)
        declare(self, VlaConfig)
        self._config = VlaConfig()
        self._node_config = NodeConfig()
        self._metrics = RunMetrics(self._config.timing.deadline_ms)
        self._health = HealthWatch(self)
        self.add_on_set_parameters_callback(
            ParameterGate(
                (NodeConfig, VlaConfig),
                live={"prompt.instruction": self._change_instruction},
                is_open=lambda: self._reasoner is None,
            )
        )
        self._diagnostics = DiagnosticsPublisher(self, self._gather)

    # Bringing up and taking down

    def start(self) -> None:
        """Configure and activate, unless a lifecycle manager shall. A failure is logged, the node lives."""
        if not self.get_parameter("autostart").value:
            return
        if self.trigger_configure() == SUCCESS:
            self.trigger_activate()

    def stop(self) -> None:
        """Zero motion, the last message on the wire; then give everything back. Safe to call twice."""
        if self._reasoner is not None:
            self.trigger_shutdown()
            self._release()

    def destroy_node(self) -> None:
        """Also end the bridges: a logger outlives the node."""
        for bridge in self._log_bridges:
            bridge.close()
        super().destroy_node()

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        return self._attempt("configure", self._configure, on_failure=self._release)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        result = self._attempt("activate", self._activate, on_failure=lambda: None)
        return super().on_activate(state) if result == SUCCESS else result

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        if self._attempt("deactivate", self._halt, on_failure=self._release) == SUCCESS:
            return super().on_deactivate(state)
        return TransitionCallbackReturn.ERROR

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._release()
        return SUCCESS

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._release()
        return SUCCESS

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """After an unexpected exception in a transition: unconfigured, from where all can be tried again."""
        self._release()
        return SUCCESS

    def _attempt(
        self, what: str, transition: Callable[[], None], on_failure: Callable[[], None]
    ) -> TransitionCallbackReturn:
        """rclpy drops the traceback of an exception in a transition; and what a user can mend is no error."""
        try:
            transition()
        except WeightsError as error:  # its text begins with a file's path
            self._faults.report(f"cannot {what}: model.path: {error}", lasting=True)
        except VlaEdgeError as error:
            self._faults.report(f"cannot {what}: {error}", lasting=True)
        except Exception:  # whatever a broken installation throws: the node must stay to tell about it
            self._faults.report(f"cannot {what}:\n{traceback.format_exc()}", lasting=True)
        else:
            self._faults.clear()
            return SUCCESS
        on_failure()
        return FAILURE

    def _configure(self) -> None:
        self._node_config = read(self, NodeConfig)
        self._config = config = read(self, VlaConfig)
        self._actions = ActionPublisher(self, config, self._now_ns, self._health.note_action_mismatch)
        engine = self._make_engine(config)
        recorder = self._open_recorder(config, self._actions)
        sink = ObservedSink(self._actions, (*self._observers, recorder.record))
        self._reasoner = Reasoner(config, engine, sink, self._now_ns, self._faults.report)
        self._metrics = self._reasoner.metrics
        self._reasoner.warm_up()
        self._memory, self._engine_name = engine.memory(), engine.name
        recorder.note_memory(self._memory)
        stamps = StampRules(self._node_config.max_stamp_lead_ms)
        self._input = FrameInput(
            self._reasoner.slot, config.frame, stamps, self._now_ns, self.get_logger().warning
        )
        images = self._listen(
            Image, "image", self._input.receive, image_qos(), self._health.note_camera_mismatch
        )
        self._health.begin(self._input, images.topic_name)
        self._listen(
            String, "instruction", self._receive_instruction, instruction_qos(), self._warn_of_instructions
        )
        self.get_logger().info(
            f"configured: {engine.name} engine, {self._memory.total_bytes / 2**20:.0f} MB, "
            f"{config.cache.capacity_slots} slots, eviction {config.cache.eviction}"
        )

    def _open_recorder(self, config: VlaConfig, actions: ActionPublisher) -> RunRecorder:
        topics = {**actions.topics, DIAGNOSTICS_TOPIC: DiagnosticArray}
        self._recorder = recorder = RunRecorder(config, topics, self._now_ns)
        actions.on_message = self._diagnostics.on_message = recorder.message
        if recorder.folder:
            self.get_logger().info(f"recording the run to {recorder.folder}")
        return recorder

    def _activate(self) -> None:
        assert self._actions is not None and self._reasoner is not None
        time.sleep(max(0.0, self._created_s + DISCOVERY_S - time.monotonic()))
        publishers = self.count_publishers(self._actions.topic)
        if publishers > 1:
            raise VlaEdgeError(
                f"{self._actions.topic} must have no other publisher, got {publishers - 1}: "
                "two policies would alternate"
            )
        self._reasoner.start()  # its first message is a period away, the publisher is enabled before that
        self._is_active = True
        timing = self._config.timing
        self.get_logger().info(f"active: an action every {timing.period_ms:g} ms on {self._actions.topic}")

    def _halt(self) -> None:
        """Join the threads; publish zero motion while the publisher still may; wait until it has arrived."""
        if self._reasoner is None or self._actions is None:
            return
        self._reasoner.stop()
        if self._is_active:
            self._actions.wait_delivered()
        self._is_active = False

    def _release(self) -> None:
        """Undo a configuration, whole or partial."""
        self._halt()
        for subscription in self._listening:
            self.destroy_subscription(subscription)
        self._listening.clear()
        self._health.end()
        if self._reasoner is not None:
            self._reasoner.close()
        if self._actions is not None:
            self._actions.destroy()
        if self._recorder is not None:
            self._diagnostics.on_message = lambda topic, message: None
            self._recorder.close()
            if dropped := self._recorder.dropped:
                self.get_logger().warning(f"recording: {dropped} rows or messages did not reach the disk")
        self._reasoner = self._actions = self._recorder = None

    # Callbacks

    def _listen(
        self,
        message_type: type,
        topic: str,
        callback: Callable[[Any], None],
        qos: QoSProfile,
        on_mismatch: OnMismatch,
    ) -> Subscription:
        def guarded(message: Any) -> None:
            try:
                callback(message)
            except Exception:  # rclpy ends its spin on any; the next message may be a good one
                self._faults.report(f"in the callback of {topic}:\n{traceback.format_exc()}")

        subscription = subscribe(self, message_type, topic, guarded, qos, on_mismatch)
        self._listening.append(subscription)
        return subscription

    def _warn_of_instructions(self, policy: str) -> None:
        self.get_logger().warning(
            f"a publisher of instructions does not match in {policy}: it must be reliable and transient local"
        )

    def _receive_instruction(self, message: String) -> None:
        result = self.set_parameters([Parameter("prompt.instruction", value=message.data)])[0]
        if not result.successful:
            self.get_logger().warning(f"instruction refused, the old one stays: {result.reason}")

    def _change_instruction(self, text: str) -> None:
        assert self._reasoner is not None
        self._reasoner.set_instruction(text)
        # Throttled: a planner may send one every cycle.
        self.get_logger().info(f"instruction: {text}", throttle_duration_sec=1.0)

    # Watching

    @property
    def is_active(self) -> bool:
        return self._is_active

    @property
    def metrics(self) -> MetricsSnapshot:
        """Of the run that goes on, or of the last one."""
        return self._metrics.snapshot()

    @property
    def frames(self) -> FrameCounts:
        """Of the configuration that stands, or of the last one."""
        if self._input is None:
            return FrameCounts()
        return FrameCounts(self._input.written, self._input.overwritten, self._input.refused.total())

    def _gather(self) -> Sequence[DiagnosticStatus]:
        config = self._config
        engine = self._health.engine(config, self._actions, self._engine_name, self._memory)
        return diagnose(
            self.get_name(),
            config.timing.deadline_ms,
            self._health.camera(self._node_config.camera_timeout_ms / 1000),
            self.metrics,
            self._action_health(),
            engine,
        )

    def _action_health(self) -> ActionHealth:
        topic = self._actions.topic if self._actions else ""
        state = "unconfigured" if self._reasoner is None else ("active" if self._is_active else "inactive")
        return ActionHealth(
            state=state,
            is_active=self._is_active,
            topic=topic,
            publishers=self.count_publishers(topic) if topic else 0,
            mismatch=self._health.action_mismatch,
            fault=self._faults.current(),
            faults=self._faults.count,
        )

    def _now_ns(self) -> int:
        """Now in the clock of the frames' stamps: ROS time, which /clock drives where use_sim_time is set."""
        return self.get_clock().now().nanoseconds


@console_program
def main(args: Sequence[str] | None = None) -> int:
    """``ros2 run vla_edge_ros reasoning_node``; 0 on a signal, 1 on an error that the user can mend."""
    command_line = CommandLine(sys.argv[1:] if args is None else args, [NodeConfig, VlaConfig])

    def create(_: StopRequest) -> Sequence[Runnable]:
        command_line.refuse_unknown()
        texts = command_line.texts(VlaConfig)
        node = ReasoningNode(
            parameter_overrides=[Parameter(name, value=text) for name, text in texts.items()]
        )
        command_line.refuse_strangers_files([node.get_fully_qualified_name()])
        return [node]

    return run_nodes(create, args)


if __name__ == "__main__":
    sys.exit(main())
