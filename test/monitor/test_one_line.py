# SPDX-License-Identifier: Apache-2.0
"""The line of each second."""

from status_messages import cycle

from vla_edge_ros.monitor.graph_state import GraphState
from vla_edge_ros.monitor.one_line import OneLine
from vla_edge_ros.monitor.screen import clock

NOW_S, WALL_S = 1059.97, 1_700_000_059.97


def test_a_line_a_second_counts_what_came_since_the_last_one(running):
    one_line = OneLine()
    first, fault = one_line.lines(running, NOW_S, WALL_S)
    assert (
        f"{clock(WALL_S, WALL_S)} | acted, fresh | cycles 1800: acted 1737, no_new_frame 60, refused 3"
        in first
    )
    assert " | latency p50 8.50  p99 9.00  max 40.00 ms  deadline 33.0 ms" in first
    assert first.endswith(" | Camera WARN") and "lasts  WARN Camera: 2 publishers" in fault
    running.take_status(cycle(1801, "late", "repeat"), NOW_S, WALL_S)
    (second,) = one_line.lines(running, NOW_S + 1, WALL_S + 1)  # the fault was told
    assert "| late, repeat | cycles 1: late 1 |" in second
    assert "cycles 0 |" in one_line.lines(running, NOW_S + 2, WALL_S + 2)[0]


def test_a_line_says_what_it_waits_for():
    (line,) = OneLine().lines(GraphState("vla"), 1.0, WALL_S)
    assert "| waiting for status: nobody publishes it | is the reasoner running" in line
