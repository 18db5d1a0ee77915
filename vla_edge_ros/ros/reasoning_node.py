# SPDX-License-Identifier: Apache-2.0
"""The lifecycle node ``vla_reasoner``: images in, actions out.

It holds the parts together and turns lifecycle transitions into their calls. No inference runs in the
executor's thread; the reasoning thread and the watchdog thread belong to ``runtime.Reasoner``.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.clock import Clock, ClockType
from rclpy.parameter import Parameter

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.console import console_program
from vla_edge_ros.engines.base import Engine
from vla_edge_ros.engines.load import load_engine
from vla_edge_ros.model.caveats import caveats
from vla_edge_ros.ros.action_claim import LOOK_EVERY_S, ActionClaim
from vla_edge_ros.ros.action_publisher import ActionPublisher
from vla_edge_ros.ros.command_line import CommandLine
from vla_edge_ros.ros.diagnostics import diagnose
from vla_edge_ros.ros.diagnostics_publisher import TOPIC as DIAGNOSTICS_TOPIC
from vla_edge_ros.ros.diagnostics_publisher import DiagnosticsPublisher
from vla_edge_ros.ros.frame_input import FrameInput
from vla_edge_ros.ros.guarded_lifecycle import GuardedLifecycleNode
from vla_edge_ros.ros.health_watch import HealthWatch
from vla_edge_ros.ros.image_topic import ImageTopic
from vla_edge_ros.ros.instruction_change import INSTRUCTION, InstructionChange
from vla_edge_ros.ros.instruction_input import InstructionInput
from vla_edge_ros.ros.interrupts import breakable
from vla_edge_ros.ros.log_bridge import LogBridge
from vla_edge_ros.ros.parameters import (
    NodeConfig,
    ParameterGate,
    declare,
    errors_name_parameters,
    read,
)
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


class ReasoningNode(GuardedLifecycleNode):
    """``start`` brings it up where the parameter ``autostart`` says so; ``stop`` ends it with zero motion."""

    def __init__(
        self,
        *,
        make_engine: Callable[[VlaConfig], Engine] = load_engine,
        observers: Sequence[Callable[[CycleRecord], None]] = (),
        **node_args: Any,
    ):
        super().__init__("vla_reasoner", **node_args)
        self._created_s = time.monotonic()
        self._make_engine = make_engine
        self._observers = tuple(observers)
        self._recorder: RunRecorder | None = None
        self._is_active = False
        self._reasoner: Reasoner | None = None
        self._claim: ActionClaim | None = None
        self._actions: ActionPublisher | None = None
        self._input: FrameInput | None = None
        self._images: ImageTopic | None = None
        self._instructions: InstructionInput | None = None
        self._memory = MemoryReport()
        self._engine_name = "none"
        self._log_bridges = [
            LogBridge(logging.getLogger(name), self.get_logger()) for name in BRIDGED_LOGGERS
        ]
        declare(self, NodeConfig)
        declare(self, VlaConfig)
        self._config = VlaConfig()
        self._node_config = NodeConfig()
        self._metrics = RunMetrics(self._config.timing.deadline_ms)
        self._health = HealthWatch(self)
        self._instruction = InstructionChange(self, lambda: self._reasoner, lambda: self._config.prompt)
        ParameterGate(
            (NodeConfig, VlaConfig),
            live={INSTRUCTION: self._instruction.parameter},
            is_open=lambda: self._reasoner is None,
        ).guard(self)
        # rclpy's executors have no event for a changed graph. Steady: see DiagnosticsPublisher.
        watch = self.guarded(self._watch_graph, "while looking at the graph")
        self.create_timer(LOOK_EVERY_S, watch, clock=Clock(clock_type=ClockType.STEADY_TIME))
        self._diagnostics = DiagnosticsPublisher(self, self._gather)

    # Bringing up and taking down

    def start(self) -> None:
        """Configure and activate, unless a lifecycle manager shall. A failure is logged, the node lives."""
        if self.get_parameter("autostart").value:
            super().start()

    def destroy_node(self) -> None:
        """Also end the bridges: a logger outlives the node."""
        super().destroy_node()
        for bridge in self._log_bridges:
            bridge.close()

    def configure(self) -> None:
        self._node_config = read(self, NodeConfig)
        self._config = config = read(self, VlaConfig)
        discovery_s = self._node_config.discovery_ms / 1000
        self._claim = ActionClaim(self, self.resolve_topic_name("action"), self._created_s, discovery_s)
        self._actions = ActionPublisher(self, config, self._now_ns)
        recorder = self._open_recorder(config, self._actions)
        sink = ObservedSink(self._actions, (*self._observers, recorder.record))
        with errors_name_parameters(config):
            self._health.caveats = caveats(config)
            self._warn_of_caveats()
            self._reasoner = self._warm_reasoner(config, sink)
        recorder.note_memory(self._memory)
        self._subscribe(self._reasoner)
        self.get_logger().info(
            f"configured: {self._engine_name} engine, {self._memory.total_bytes / 2**20:.0f} MB, "
            f"{config.cache.capacity_slots} slots, eviction {config.cache.eviction}"
        )

    def _warm_reasoner(self, config: VlaConfig, sink: ObservedSink) -> Reasoner:
        """What takes seconds to minutes may be broken off; an engine that exists is closed then."""
        with breakable():
            engine = self._make_engine(config)
        try:
            reasoner = Reasoner(config, engine, sink, self._now_ns, self.faults.report)
            with breakable():
                reasoner.warm_up()
        except BaseException:
            engine.close()
            raise
        self._metrics = reasoner.metrics
        self._memory, self._engine_name = engine.memory(), engine.name
        return reasoner

    def _subscribe(self, reasoner: Reasoner) -> None:
        stamps = StampRules(self._node_config.max_stamp_lead_ms)
        self._input = FrameInput(
            reasoner.slot, self._config.frame, stamps, self._now_ns, self.get_logger().warning
        )
        transport = self._node_config.image_transport
        self._images = ImageTopic(self, self._input, transport, self.listen, self.faults.report)
        self._health.begin(self._input, self._images)
        self._instructions = InstructionInput(self, self._instruction.receive)

    def _open_recorder(self, config: VlaConfig, actions: ActionPublisher) -> RunRecorder:
        topics = {**actions.topics, DIAGNOSTICS_TOPIC: DiagnosticArray}
        self._recorder = recorder = RunRecorder(config, topics, self._now_ns)
        actions.on_message = self._diagnostics.on_message = recorder.message
        if recorder.folder:
            self.get_logger().info(f"recording the run to {recorder.folder}")
        return recorder

    def activate(self) -> None:
        assert self._actions is not None and self._reasoner is not None and self._claim is not None
        try:
            with breakable():
                self._claim.wait_for_turn()
            self._reasoner.start()  # its first message is a period away, the publisher is enabled before that
        except BaseException:
            self._claim.withdraw()
            raise
        self._is_active = True
        self._warn_of_caveats()  # again: whoever activates a node need not have configured it
        timing = self._config.timing
        self.get_logger().info(f"active: an action every {timing.period_ms:g} ms on {self._actions.topic}")

    def _warn_of_caveats(self) -> None:
        for caveat in self._health.caveats:
            self.get_logger().warning(caveat)

    def _watch_graph(self) -> None:
        """Two publishers may find each other late. One stops: which one, both know by the same rule."""
        if self._instructions is not None:
            self._instructions.look_for_latched()
        if self._is_active and self._claim is not None and (obstacle := self._claim.obstacle()):
            self.trigger_deactivate()
            self.faults.report(f"stopped with zero motion: {obstacle}", lasting=True)

    def halt(self) -> None:
        """Join the threads; publish zero motion while the publisher still may; wait until it has arrived."""
        try:
            if self._reasoner is not None:
                self._reasoner.stop()
            if self._is_active and self._actions is not None:
                self._actions.wait_delivered()
        finally:
            self._is_active = False
            if self._claim is not None:
                self._claim.withdraw()

    def release(self) -> None:
        """Undo a configuration, whole or partial. What fails is told, and does not keep the rest."""
        for step in (self.halt, self.unsubscribe, self._health.end, self._close):
            try:
                step()
            except Exception:
                self.faults.report(f"while releasing:\n{traceback.format_exc()}")
        self._reasoner = self._claim = self._actions = self._recorder = None
        self._instructions = self._images = None

    def _close(self) -> None:
        """In this order: who writes ends before what is written to."""
        self._diagnostics.on_message = lambda topic, message: None
        with contextlib.ExitStack() as closing:
            for part in (self._claim, self._actions):
                if part is not None:
                    closing.callback(part.destroy)
            if self._recorder is not None:
                closing.callback(self._close_recorder, self._recorder)
            if self._reasoner is not None:
                closing.callback(self._reasoner.close)

    def _close_recorder(self, recorder: RunRecorder) -> None:
        recorder.close()
        if recorder.dropped:
            self.get_logger().warning(
                f"recording: {recorder.dropped} rows or messages did not reach the disk"
            )

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
        with self.turn:
            return self._look()

    def _look(self) -> Sequence[DiagnosticStatus]:
        if self._images is not None:
            self._images.check()  # rclpy has no event for a changed graph
        config = self._config
        state = "unconfigured" if self._reasoner is None else ("active" if self._is_active else "inactive")
        engine = self._health.engine(config, self._actions, self._engine_name, self._memory)
        return diagnose(
            self.get_fully_qualified_name(),
            config.timing,
            self._health.camera(self._node_config.camera_timeout_ms / 1000, config.timing.max_frame_age_ms),
            self.metrics,
            self._health.action(state, self._actions, self._claim, self.faults),
            engine,
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
