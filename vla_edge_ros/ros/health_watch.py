# SPDX-License-Identifier: Apache-2.0
"""Gathers the camera's and the engine's health for the diagnostics. Used by the executor thread only."""

from __future__ import annotations

import time

from rclpy.node import Node

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.ros.action_publisher import ActionPublisher
from vla_edge_ros.ros.frame_input import FrameInput
from vla_edge_ros.ros.health import CameraHealth, EngineHealth, RecentRate
from vla_edge_ros.types import MemoryReport


class HealthWatch:
    """Remembers between two looks what rates need; and the QoS policies that kept somebody away."""

    def __init__(self, node: Node):
        self._node = node
        self._input: FrameInput | None = None
        self._topic = ""
        self.camera_mismatch = ""
        self.action_mismatch = ""
        self.caveats: tuple[str, ...] = ()

    def begin(self, frame_input: FrameInput, topic: str) -> None:
        """A new configuration: rates start anew."""
        self._input = frame_input
        self._topic = topic
        self._frames, self._refused, self._replaced = RecentRate(), RecentRate(), RecentRate()

    def end(self) -> None:
        self._input = None
        self.camera_mismatch = self.action_mismatch = ""
        self.caveats = ()

    def note_camera_mismatch(self, policy: str) -> None:
        self.camera_mismatch = policy

    def note_action_mismatch(self, policy: str) -> None:
        self.action_mismatch = policy

    def camera(self, timeout_s: float) -> CameraHealth:
        """Empty while nothing is configured."""
        source = self._input
        if source is None:
            return CameraHealth()
        now_s = time.monotonic()
        return CameraHealth(
            topic=self._topic,
            publishers=self._node.count_publishers(self._topic),
            frames=source.written,
            overwritten=source.overwritten,
            refused=dict(source.refused),
            replaced_stamps=dict(source.replaced_stamps),
            rate_hz=self._frames.update(now_s, source.written),
            recent_refused=self._refused.update(now_s, source.refused.total()),
            recent_replaced=self._replaced.update(now_s, source.replaced_stamps.total()),
            silent_s=source.seconds_without_a_frame(),
            timeout_s=timeout_s,
            age_ms=source.age_ms,
            width=source.size[0],
            height=source.size[1],
            encoding=source.encoding,
            mismatch=self.camera_mismatch,
            clock_missing=self._is_clock_missing(),
        )

    def engine(
        self, config: VlaConfig, actions: ActionPublisher | None, name: str, memory: MemoryReport
    ) -> EngineHealth:
        return EngineHealth(
            name=name,
            memory=memory,
            ceiling_mb=config.engine.vram_ceiling_mb,
            slots_in_use=actions.slots_in_use if actions else 0,
            capacity_slots=config.cache.capacity_slots,
            evictions=actions.evictions if actions else 0,
            eviction=config.cache.eviction,
            caveats=self.caveats,
        )

    def _is_clock_missing(self) -> bool:
        is_sim_time = self._node.get_parameter("use_sim_time").value
        return bool(is_sim_time) and self._node.get_clock().now().nanoseconds == 0
