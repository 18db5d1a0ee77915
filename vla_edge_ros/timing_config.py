# SPDX-License-Identifier: Apache-2.0
"""The control period, its deadline, and the margins before it."""

from __future__ import annotations

from dataclasses import dataclass

from vla_edge_ros.config_fields import check_fields, param
from vla_edge_ros.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingConfig:
    """The control period and what must fit into it."""

    period_ms: float = param(33.0, "control period; one action message a period", low=1.0)
    deadline_ms: float = param(33.0, "an action later than this after its grid point is late", low=1.0)
    margin_ms: float = param(2.0, "admission plans to finish this long before the deadline", low=0.0)
    publish_lead_ms: float = param(
        1.0, "the watchdog answers this long before the deadline, so that its message is not late", low=0.1
    )
    recheck_margin_ms: float = param(
        0.5, "a chunk is aborted when it would end later than this before the lead", low=0.0
    )
    spin_us: float = param(
        100.0, "the last stretch of a wait that spins instead of sleeping", low=0.0, high=500.0
    )
    realtime_priority: int = param(
        0,
        "SCHED_FIFO priority of the reasoning and the watchdog thread; 0: an ordinary thread",
        low=0,
        high=99,
    )
    max_frame_age_ms: float = param(100.0, "an older frame is stale and is not acted on", low=1.0)

    def __post_init__(self) -> None:
        check_fields("timing", self)
        if self.deadline_ms > self.period_ms:
            raise ConfigError(
                f"timing.deadline_ms must not exceed period_ms (cycles do not overlap), "
                f"got {self.deadline_ms} > {self.period_ms}"
            )
        if self.margin_ms + self.publish_lead_ms >= self.deadline_ms:
            raise ConfigError(
                f"timing.margin_ms + publish_lead_ms must be below deadline_ms, "
                f"got {self.margin_ms} + {self.publish_lead_ms} >= {self.deadline_ms}"
            )
        if self.chunk_limit_ms <= 0:
            raise ConfigError(
                f"timing.recheck_margin_ms + publish_lead_ms must be below deadline_ms, or no chunk may run: "
                f"got {self.recheck_margin_ms} + {self.publish_lead_ms} >= {self.deadline_ms}"
            )

    @property
    def budget_ms(self) -> float:
        """When admission plans a chunk to end, after the grid point."""
        return self.deadline_ms - self.margin_ms

    @property
    def chunk_limit_ms(self) -> float:
        """When a running chunk must end, after the grid point, to be there before the watchdog answers."""
        return self.deadline_ms - self.publish_lead_ms - self.recheck_margin_ms
