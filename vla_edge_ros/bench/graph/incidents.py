# SPDX-License-Identifier: Apache-2.0
"""Why a cycle was late: what stood still and which calls were slow between its grid point and its answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from vla_edge_ros.bench.graph.stall_watch import Stall
from vla_edge_ros.bench.graph.timed_engine import EngineCall
from vla_edge_ros.types import NS_PER_MS, NS_PER_S

WINDOW_MARGIN_NS = 5 * NS_PER_MS  # before the grid point: what kept the thread from waking up there


class LateCycle(NamedTuple):
    """``answered_ns``: monotonic, right after the publish; ``latency_ms``: that of the cycle's record."""

    cycle: int
    answered_ns: int
    latency_ms: float


def explain(
    late: Iterable[LateCycle],
    start_ns: int,
    stalls_node: Sequence[Stall],
    stalls_machine: Sequence[Stall],
    calls: Sequence[EngineCall],
) -> list[dict[str, Any]]:
    """One row for each late cycle; ``at_s`` counts from ``start_ns``.

    ``stalls_machine``: those that a process beside the node saw. A publish that stood still itself moves the
    window's start to later, by as long; the stall lies at the window's end then.
    """
    rows = []
    for cycle, answered_ns, latency_ms in late:
        begin_ns = answered_ns - round(latency_ms * NS_PER_MS) - WINDOW_MARGIN_NS
        window = (begin_ns, answered_ns + WINDOW_MARGIN_NS)
        rows.append(
            {
                "cycle": cycle,
                "at_s": round((answered_ns - start_ns) / NS_PER_S, 3),
                "published_ms_after_grid": round(latency_ms, 2),
                "stalls_node": _stalls_in(window, stalls_node),
                "stalls_machine": _stalls_in(window, stalls_machine),
                "slow_calls": [
                    call_row(call)
                    for call in sorted(calls, key=lambda call: call.began_ns)
                    if _overlaps(window, call.began_ns, call.wall_ms)
                ],
            }
        )
    return rows


def call_row(call: EngineCall) -> dict[str, Any]:
    return {
        "call": call.call,
        "wall_ms": round(call.wall_ms, 2),
        "cpu_ms": round(call.cpu_ms, 2),
        "device_ms": round(call.device_ms, 2),
    }


def _stalls_in(window: tuple[int, int], stalls: Iterable[Stall]) -> list[float]:
    return [round(late_ms, 2) for due_ns, late_ms in stalls if _overlaps(window, due_ns, late_ms)]


def _overlaps(window: tuple[int, int], begin_ns: int, length_ms: float) -> bool:
    return begin_ns <= window[1] and begin_ns + length_ms * NS_PER_MS >= window[0]
