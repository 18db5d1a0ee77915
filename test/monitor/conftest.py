# SPDX-License-Identifier: Apache-2.0
"""A graph that has run for a minute."""

from __future__ import annotations

import pytest
from status_messages import NODE, array, cycle, status

from vla_edge_ros.monitor.graph_state import GraphState, Publishers

BEGAN_S = 1000.0  # steady
WALL_S = 1_700_000_000.0


@pytest.fixture
def running() -> GraphState:
    """30 cycles a second for 60 s: one repeat a second, and in the last second three refusals, one zero."""
    state = GraphState("/vla")
    state.publishers = Publishers("/vla/status", 1, 2)
    for number in range(60 * 30):
        now_s = BEGAN_S + number / 30
        outcome, source, reason = "acted", "fresh", "within_budget"
        if number % 30 == 7:
            outcome, source, reason = "no_new_frame", "repeat", "none"
        if number in (1790, 1791, 1792):
            outcome, source, reason = "refused", "zero" if number == 1792 else "repeat", "over_budget"
        latency_ms = 40.0 if number == 1799 else 8.0 + 0.1 * (number % 11)
        message = cycle(number + 1, outcome, source, admission_reason=reason, latency_ms=latency_ms)
        state.take_status(message, now_s, WALL_S + now_s - BEGAN_S)
    state.take_diagnostics(diagnostics(), BEGAN_S + 59.9, WALL_S + 59.9)
    return state


def diagnostics():
    camera = dict(rate_hz=30.1, width_px=640, height_px=480, encoding="rgb8", lost_percent=0.5, silent_s=0.01)
    deadline = dict(deadline_ms=33.0, late_messages=2)
    return array(
        status(f"{NODE}: Camera", b"\x01", "2 publishers on /vla/image: their pictures alternate", **camera),
        status(f"{NODE}: Deadline", message="met", **deadline),
        status(f"{NODE}: Admission", refused_over_budget=25, refused_no_time_left=1),
        status(f"{NODE}: KV cache", message="novelty", slots_in_use=2048, capacity_slots=4096, evictions=7),
        status(f"{NODE}: Action", message="fresh actions", longest_repeat=3),
        status(f"{NODE}: GPU", message="cuda", memory_mb=3120.5, errors=0),
        status(
            "/vla/tabletop: Robot", message="follows actions", accepted=8123, refused_size=2, silent_s=0.0
        ),
    )
