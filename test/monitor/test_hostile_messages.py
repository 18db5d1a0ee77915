# SPDX-License-Identifier: Apache-2.0
"""Whatever is published, the monitor shows something."""

from hypothesis import given, settings
from hypothesis import strategies as st
from status_messages import NODE, array, status

from vla_edge_ros.monitor.graph_state import GraphState
from vla_edge_ros.monitor.line import columns, painted
from vla_edge_ros.monitor.one_line import OneLine
from vla_edge_ros.monitor.screen import View, screen

WORDS = st.text(max_size=20) | st.sampled_from(
    [
        "acted",
        "fresh",
        "refused",
        "repeat",
        "zero",
        "stopped",
        "over_budget",
        "nan",
        "inf",
        "-1",
        "1e999",
        "0.5",
        "",
    ]
)
NAMES = st.sampled_from(
    ["Camera", "Deadline", "Admission", "KV cache", "Action", "GPU", "Robot", "Cycle"]
).map(lambda subject: f"{NODE}: {subject}") | st.text(max_size=30)
KEYS = st.sampled_from(
    ["cycle", "outcome", "source", "latency_ms", "deadline_ms", "rate_hz", "capacity_slots", "refused_x"]
) | st.text(max_size=8)
STATUSES = st.builds(
    lambda name, level, message, values: status(name, level, message, **values),
    NAMES,
    st.binary(max_size=1) | st.integers(-300, 300),
    WORDS,
    st.dictionaries(KEYS, WORDS, max_size=8),
)
MESSAGES = st.lists(
    st.tuples(
        st.sampled_from(["status", "diagnostics", "episode"]),
        st.lists(STATUSES, max_size=4),
        st.floats(-50, 50),
    ),
    max_size=8,
)


@given(MESSAGES, st.integers(1, 120), st.integers(1, 40), st.booleans())
@settings(max_examples=60)
def test_whatever_comes_the_screen_fits_and_nothing_steers_the_terminal(messages, width, height, is_unicode):
    state, one_line = GraphState("/vla"), OneLine()
    for topic, statuses, now_s in messages:  # a clock that goes back, too
        if topic == "status":
            state.take_status(array(*statuses), now_s, 1e9 + now_s)
        elif topic == "diagnostics":
            state.take_diagnostics(array(*statuses), now_s, 1e9 + now_s)
        else:
            state.take_episode(array(*statuses), now_s)
        drawn = screen(state, View(width, height, is_unicode), now_s, 1e9)
        assert len(drawn) <= height
        lines = [painted(line, width, has_colour=False) for line in drawn]
        assert all(sum(map(columns, line)) <= width and line.isprintable() for line in lines)
        assert all(line.isprintable() for line in one_line.lines(state, now_s, 1e9))
