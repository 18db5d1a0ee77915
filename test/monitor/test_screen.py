# SPDX-License-Identifier: Apache-2.0
"""The whole screen, by what stands on it."""

import re
import time

import pytest
from status_messages import NODE, array, cycle, status

from vla_edge_ros.monitor.graph_state import GraphState, Publishers
from vla_edge_ros.monitor.line import BARS, painted
from vla_edge_ros.monitor.screen import DAY_S, View, clock, screen

NOW_S, WALL_S = 1059.97, 1_700_000_059.97


def texts(state, *, width=200, height=100, now_s=NOW_S, wall_s=WALL_S, colour=False, is_unicode=True):
    lines = screen(state, View(width, height, is_unicode), now_s, wall_s)
    return [painted(line, width, has_colour=colour).rstrip() for line in lines]


def row(lines, label):
    """The texts of the rows that begin with ``label``."""
    return [line[10:].strip() for line in lines if line.startswith(label.ljust(10))][0]


def test_a_running_graph_row_by_row(running):
    lines = texts(running)
    assert lines[0] == f"vla_edge_ros monitor  {clock(WALL_S, WALL_S)}  {NODE}  acted, fresh"
    assert row(lines, "cycles") == "30.0 Hz  last minute:  acted 96.5 %  no_new_frame 3.3 %  refused 0.2 %"
    assert row(lines, "latency") == "p50 8.50  p99 9.00  max 40.00 ms  deadline 33.0 ms  late messages 2"
    assert row(lines, "fallback") == "repeat 62, zero 1  longest repeat 3"
    assert row(lines, "refused") == "over_budget 3  since activation: no_time_left 1, over_budget 25"
    assert row(lines, "camera") == (
        "30.1 Hz  age 5 ms  640x480 rgb8  lost 0.5 %  silent 0.0 s  "
        "2 publishers on /vla/image: their pictures alternate"
    )
    assert row(lines, "cache") == "2048 of 4096 slots (50 %)  evictions 7  longest gap - ms  novelty"
    assert row(lines, "engine") == "cuda  3120 MB  errors 0"
    assert row(lines, "robot") == "follows actions  accepted 8123  refused size 2  silent 0.0 s"
    assert row(lines, "health") == "Camera WARN  OK Robot, Action, Admission, Deadline, GPU, KV cache"
    assert lines[-1] == (
        f"  {clock(WALL_S, WALL_S)} lasts  WARN Camera: 2 publishers on /vla/image: their pictures alternate"
    )


def test_bars_of_the_last_minute(running):
    lines = texts(running)
    # 9.0 of 33 ms: the third of eight steps. The last second has one of 40 ms.
    assert row(lines, "  max") == BARS[2] * 59 + BARS[7]
    # One of thirty is not fresh; in the last second four.
    assert row(lines, "  share") == BARS[0] * 59 + BARS[1]
    painted_bars = [line for line in screen(running, View(), NOW_S, WALL_S) if line[0][0].strip() == "max"][0]
    assert [style for _, style in painted_bars[1:]] == ["good"] * 59 + ["bad"]
    assert set(row(texts(running, is_unicode=False), "  max")) == {"-", "#"}
    assert "".join(texts(running, is_unicode=False)).isascii()
    narrow = texts(running, width=30)
    assert row(narrow, "  max") == BARS[2] * 19 + BARS[7]  # the newest ones


def test_silence_is_a_gap_in_the_bars_and_is_named(running):
    lines = texts(running, now_s=NOW_S + 6)
    assert lines[0].endswith("no status for 6 s  and no diagnostics: is it running?")
    (bars,) = (line for line in lines if line.startswith("  max"))
    assert bars == f"  max     {BARS[2] * 53}{BARS[7]}"  # six seconds without follow
    assert row(lines, "cycles").startswith("0.0 Hz  last minute:  acted")
    assert row(lines, "camera").startswith("no diagnostics for 6 s; the last: 30.1 Hz")
    assert row(lines, "health").startswith("Robot silent  Action silent")
    running.take_diagnostics(array(status(f"{NODE}: Action", message="inactive")), NOW_S + 6, WALL_S + 6)
    assert texts(running, now_s=NOW_S + 6)[0].endswith("no status for 6 s  Action: inactive")


def test_a_run_that_was_ended_says_so(running):
    running.take_status(cycle(1801, "stopped", "zero"), NOW_S, WALL_S)
    assert texts(running, now_s=NOW_S + 9)[0].endswith("stopped 9 s ago  and no diagnostics: is it running?")


def test_two_publishers_of_status_are_told(running):
    running.publishers = Publishers("/vla/status", 2, 2)
    assert texts(running)[0].endswith("acted, fresh  2 publishers of /vla/status")


@pytest.mark.parametrize(
    ("publishers", "says"),
    [
        (
            Publishers("/vla/status", 0, 0, (), "42"),
            [
                "waiting for /vla/status: nobody publishes it",
                "  is the reasoner running, in the namespace /vla and ROS_DOMAIN_ID 42?",
                "waiting for /diagnostics: nobody publishes it",
            ],
        ),
        (
            Publishers("/vla/status", 0, 2, ("/robot1/vla/status", "/status")),
            [
                "waiting for /vla/status: nobody publishes it",
                "  is the reasoner running, in the namespace /vla and ROS_DOMAIN_ID 0?",
                "  there is /robot1/vla/status: watch it with --namespace robot1/vla",
                "  there is /status: watch it with --namespace /",
                "waiting for /diagnostics: 2 publishers, and no message of /diagnostics came yet",
            ],
        ),
        (
            Publishers("/vla/status", 1, 1),
            [
                "waiting for /vla/status: 1 publisher, and no message of /vla/status came yet",
                "  a reasoner sends none before it is active, and Action says its state",
                "waiting for /diagnostics: 1 publisher, and no message of /diagnostics came yet",
            ],
        ),
    ],
)
def test_it_says_what_it_waits_for(publishers, says):
    state = GraphState("vla")
    state.publishers = publishers
    lines = texts(state)
    assert lines[0].endswith("  /vla  waiting") and lines[1:] == says


def test_a_reasoner_that_is_not_active_is_shown_by_its_diagnostics():
    state = GraphState("vla")
    state.publishers = Publishers("/vla/status", 1, 1)
    state.take_diagnostics(
        array(status(f"{NODE}: Action", message="inactive"), status(f"{NODE}: KV cache", slots_in_use=1)),
        1.0,
        1.0,
    )
    lines = texts(state, now_s=1.0)
    assert lines[1].startswith("waiting for /vla/status: 1 publisher")
    assert row(lines, "cache").startswith("1 of 0 slots") and row(lines, "health") == "OK Action, KV cache"
    assert not any("waiting for /diagnostics" in line for line in lines)


def test_before_the_first_diagnostics_there_is_no_deadline():
    state = GraphState("vla")
    state.take_status(cycle(1, latency_ms="nan"), 1.0, 1.0)
    assert row(texts(state, now_s=1.0), "latency") == "no fresh action in the last minute"
    state.take_status(cycle(2, latency_ms=12.5), 1.0, 1.0)
    assert row(texts(state, now_s=1.0), "latency") == "p50 12.50  p99 12.50  max 12.50 ms"
    assert row(texts(state, now_s=1.0), "  max") == BARS[7]  # of the longest that is known


def test_the_time_of_an_older_fault_has_its_date():
    assert clock(WALL_S - DAY_S - 1, WALL_S) == time.strftime(
        "%Y-%m-%d %H:%M", time.localtime(WALL_S - DAY_S - 1)
    )
    assert re.fullmatch(r"\d\d:\d\d:\d\d", clock(WALL_S - DAY_S + 1, WALL_S))
