# SPDX-License-Identifier: Apache-2.0
"""Made-up late cycles, stalls and calls: what belongs together is put together."""

from __future__ import annotations

from vla_edge_ros.bench.graph.incidents import LateCycle, explain
from vla_edge_ros.bench.graph.stall_watch import Stall
from vla_edge_ros.bench.graph.timed_engine import EngineCall
from vla_edge_ros.types import NS_PER_MS

START_NS = 1_000 * NS_PER_MS


def at(ms: float) -> int:
    return START_NS + round(ms * NS_PER_MS)


# Grid point at 484 ms, answered at 500 ms: the window goes from 479 to 505 ms.
LATE = LateCycle(30, at(500), 16.0)


def explained(node=(), machine=(), calls=(), late=(LATE,)):
    return explain(late, START_NS, list(node), list(machine), list(calls))


def test_a_late_cycle_with_nothing_around_it_says_so():
    assert explained() == [
        {
            "cycle": 30,
            "at_s": 0.5,
            "published_ms_after_grid": 16.0,
            "stalls_node": [],
            "stalls_machine": [],
            "slow_calls": [],
        }
    ]
    assert explained(late=()) == []


def test_stalls_go_to_the_process_that_saw_them():
    row = explained(node=[Stall(at(486), 12.3), Stall(at(499), 4.0)], machine=[Stall(at(490), 7.0)])[0]
    assert row["stalls_node"] == [12.3, 4.0]
    assert row["stalls_machine"] == [7.0]


def test_only_what_reaches_into_the_window_counts():
    stalls = [
        Stall(at(470), 8.9),  # over before it
        Stall(at(471), 8.1),  # reaches into it
        Stall(at(300), 400.0),  # goes on through all of it
        Stall(at(504), 3.1),
        Stall(at(506), 50.0),  # due after it
    ]
    assert explained(node=stalls)[0]["stalls_node"] == [8.1, 400.0, 3.1]


def test_calls_come_in_the_order_in_which_they_began():
    calls = [
        EngineCall(14.0, at(486), "decode", 1.0, 6.5),
        EngineCall(9.0, at(100), "decode", 1.0, 6.5),  # of another cycle
        EngineCall(1.56, at(484.4), "prefill", 0.3, 1.5),
    ]
    assert explained(calls=calls)[0]["slow_calls"] == [
        {"call": "prefill", "wall_ms": 1.56, "cpu_ms": 0.3, "device_ms": 1.5},
        {"call": "decode", "wall_ms": 14.0, "cpu_ms": 1.0, "device_ms": 6.5},
    ]


def test_each_late_cycle_has_a_window_of_its_own():
    later = LateCycle(90, at(1500), 40.0)
    rows = explained(node=[Stall(at(490), 5.0), Stall(at(1470), 30.0)], late=(LATE, later))
    assert [(row["cycle"], row["at_s"], row["stalls_node"]) for row in rows] == [
        (30, 0.5, [5.0]), (90, 1.5, [30.0]),
    ]  # fmt: skip
