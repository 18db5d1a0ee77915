# SPDX-License-Identifier: Apache-2.0
"""Gathers the camera's, the action's and the engine's health for the diagnostics. Executor thread only."""

from __future__ import annotations

import os
import time

from rclpy.node import Node
from rclpy.utilities import get_rmw_implementation_identifier

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.ros.action_claim import ActionClaim
from vla_edge_ros.ros.action_publisher import ActionPublisher
from vla_edge_ros.ros.endpoints import mismatch, names, promised_rate_hz, subscribers
from vla_edge_ros.ros.faults import FaultLog
from vla_edge_ros.ros.frame_input import FrameInput
from vla_edge_ros.ros.health import ActionHealth, CameraHealth, EngineHealth, RecentRate
from vla_edge_ros.ros.image_topic import ImageTopic
from vla_edge_ros.types import MemoryReport

# How often to ask who subscribes: the graph's answer costs a tenth of a millisecond.
SUBSCRIBERS_EVERY_S = 0.5


class HealthWatch:
    """Remembers between two looks what rates need, and who subscribed at the last one."""

    def __init__(self, node: Node):
        self._node = node
        self._input: FrameInput | None = None
        self.caveats: tuple[str, ...] = ()
        self._images: ImageTopic | None = None
        self._kept_away = ""
        self._asked_s = 0.0

    def begin(self, frame_input: FrameInput, images: ImageTopic) -> None:
        """A new configuration: rates start anew."""
        self._input = frame_input
        self._images = images
        self._frames, self._refused, self._replaced = RecentRate(), RecentRate(), RecentRate()
        self._busy = RecentRate()

    def end(self) -> None:
        self._input = self._images = None
        self.caveats = ()

    def camera(self, timeout_s: float, max_age_ms: float) -> CameraHealth:
        """Empty while nothing is configured."""
        source, images = self._input, self._images
        if source is None or images is None:
            return CameraHealth()
        now_s = time.monotonic()
        matching = [end for end in images.publishers if not mismatch(end.qos, images.qos)]
        return CameraHealth(
            topic=images.topic,
            expected_type=images.expected_type,
            publishers=len(images.publishers),
            publisher_names=names(images.publishers),
            strangers="; ".join(f"{end.node} publishes {end.message_type}" for end in images.strangers),
            kept_away="; ".join(
                f"{end.node} does not match in {policies}"
                for end in images.publishers
                if (policies := mismatch(end.qos, images.qos))
            ),
            promised_hz=max((promised_rate_hz(end.qos) for end in matching), default=0.0),
            frames=source.written,
            overwritten=source.overwritten,
            refused=dict(source.refused),
            refusal=source.refusal,
            replaced_stamps=dict(source.replaced_stamps),
            rate_hz=self._frames.update(now_s, source.written),
            recent_refused=self._refused.update(now_s, source.refused.total()),
            recent_replaced=self._replaced.update(now_s, source.replaced_stamps.total()),
            loss=source.loss.look(now_s, len(matching)),
            transport=_transport(),
            busy_share=self._busy.update(now_s, source.busy_s),
            silent_s=source.seconds_without_a_frame(),
            timeout_s=timeout_s,
            age_ms=source.age_ms,
            least_age_ms=min(source.ages_ms, default=0.0),
            most_age_ms=max(source.ages_ms, default=0.0),
            max_age_ms=max_age_ms,
            width=source.size[0],
            height=source.size[1],
            encoding=source.encoding,
            clock_missing=self._is_clock_missing(),
        )

    def kept_away(self, actions: ActionPublisher | None) -> str:
        """Who asks for more than action and status offer, and in what; empty without anybody."""
        now_s = time.monotonic()
        if actions is None:
            return ""
        if now_s - self._asked_s >= SUBSCRIBERS_EVERY_S:
            self._asked_s = now_s
            self._kept_away = "; ".join(
                f"{end.node} does not match {topic} in {policies}"
                for topic, offered in actions.offers.items()
                for end in subscribers(self._node, topic)
                if (policies := mismatch(offered, end.qos))
            )
        return self._kept_away

    def action(
        self, state: str, actions: ActionPublisher | None, claim: ActionClaim | None, faults: FaultLog
    ) -> ActionHealth:
        """``state``: the node's, ``active`` while it publishes."""
        return ActionHealth(
            state=state,
            is_active=state == "active",
            topic=actions.topic if actions else "",
            publishers=1 + claim.rivals() if claim else 0,
            kept_away=self.kept_away(actions),
            fault=faults.current(),
            faults=faults.count,
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


def _transport() -> str:
    """The middleware, and with Fast DDS which of its transports, as far as the environment says."""
    middleware = get_rmw_implementation_identifier()
    if not middleware.startswith("rmw_fastrtps"):
        return str(middleware)
    transports = os.environ.get("FASTDDS_BUILTIN_TRANSPORTS") or "DEFAULT"
    return f"{middleware}, FASTDDS_BUILTIN_TRANSPORTS={transports}"
