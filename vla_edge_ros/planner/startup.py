# SPDX-License-Identifier: Apache-2.0
"""What an engine says as it loads where no kernel could keep the configured deadline on its GPU."""

from __future__ import annotations

from dataclasses import replace

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.engines.cuda.plan.sizes import Sizes
from vla_edge_ros.planner.advice import sentence
from vla_edge_ros.planner.boards import boards_of
from vla_edge_ros.planner.estimate import estimate


def below_floor(sizes: Sizes, config: VlaConfig) -> str:
    """A warning where a chunk's bytes alone take longer than a chunk may; else empty, as on an unknown GPU.

    Judged without draft tokens, with a full cache, and by the fastest board that the device may be. What is
    slower than its floor is for the warm-up to find, which measures.
    """
    known = boards_of(sizes.device)
    if not known:
        return ""
    fastest = max(known, key=lambda board: board.bandwidth_gb_s)
    engine = replace(config.engine, draft="none", decode_step="auto")
    made = estimate(fastest, sizes.decoder, replace(config, engine=engine))
    limit_ms = config.timing.chunk_limit_ms
    if made.floor_ms <= limit_ms:
        return ""
    return (
        f"no chunk without accepted draft tokens can end in time: {limit_ms:.1f} ms are there for it "
        f"(timing.deadline_ms less publish_lead_ms and recheck_margin_ms), and with a full cache it takes "
        f"{made.floor_ms:.1f} ms or more. {sentence(made, config.timing.period_ms)}"
    )
