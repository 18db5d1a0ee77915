# SPDX-License-Identifier: Apache-2.0
"""A run on disk: one row a cycle, and the node's own topics as a bag beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.serialization import serialize_message
from trajectory_msgs.msg import JointTrajectory

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.errors import ConfigError
from vla_edge_ros.recording.cycle_recorder import CycleRecorder
from vla_edge_ros.types import CycleRecord, MemoryReport

if TYPE_CHECKING:
    from vla_edge_ros.recording.mcap_writer import McapWriter

TYPES = {
    JointTrajectory: "trajectory_msgs/msg/JointTrajectory",
    DiagnosticArray: "diagnostic_msgs/msg/DiagnosticArray",
}


class RunRecorder:
    """Takes cycles and messages from any thread, never waits for the disk; without a path it drops them.

    ``topics``: full names of the topics to record, and their message classes.
    """

    def __init__(self, config: VlaConfig, topics: dict[str, type], now_ns: Callable[[], int]):
        self._now_ns = now_ns
        self._topics = topics
        self._cycles: CycleRecorder | None = None
        self._bag: McapWriter | None = None
        if not config.recording.path:
            return
        writer = _bag_writer() if config.recording.topics else None
        self._cycles = CycleRecorder(config.recording.path, config)
        if writer:
            names = {topic: TYPES[message_type] for topic, message_type in topics.items()}
            try:
                self._bag = writer(self._cycles.folder / "topics", names)
            except BaseException:
                self.close()  # the table's thread and file
                raise

    @property
    def folder(self) -> str:
        """Where the run is; empty where nothing is recorded."""
        return str(self._cycles.folder) if self._cycles else ""

    @property
    def dropped(self) -> int:
        """Rows and messages that did not reach the disk."""
        return sum(part.dropped for part in (self._cycles, self._bag) if part)

    def record(self, cycle: CycleRecord) -> None:
        """Queue one row."""
        if self._cycles:
            self._cycles.record(cycle)

    def message(self, topic: str, message: Any) -> None:
        """Queue a message that was published on ``topic``; others than the announced ones are left out."""
        if self._bag and topic in self._topics:
            self._bag.record(topic, self._now_ns(), serialize_message(message))

    def note_memory(self, report: MemoryReport) -> None:
        """Keep the engine's memory report with the run."""
        if self._cycles:
            self._cycles.note_memory(report)

    def close(self) -> None:
        """Write what waits; safe to call twice."""
        for part in (self._cycles, self._bag):
            if part:
                part.close()


def _bag_writer() -> type[McapWriter]:
    """Imported only here: it brings the bag library, which a node that records nothing does not need."""
    try:
        from vla_edge_ros.recording.mcap_writer import McapWriter
    except ImportError as error:
        raise ConfigError(
            f"recording.topics expected the package rosbags, got {error}; install it, or set "
            f"recording.topics to false to record the table of cycles only"
        ) from error
    return McapWriter
