# SPDX-License-Identifier: Apache-2.0
"""What messages make of the state: whose they are, what restarts, what is missing."""

import pytest
from status_messages import NODE, array, cycle, status

from vla_edge_ros.monitor.graph_state import MOST_NAMES, GraphState
from vla_edge_ros.monitor.reading import WARN


def state_of(namespace="/vla") -> GraphState:
    return GraphState(namespace)


def names(state: GraphState) -> list[str]:
    return [seen.reading.name for seen in state.subjects()]


@pytest.mark.parametrize(
    ("namespace", "ours"),
    [
        ("/vla", ["/vla/arm/bridge: Robot", "/vla/vla_reasoner: Camera"]),
        ("vla/", ["/vla/arm/bridge: Robot", "/vla/vla_reasoner: Camera"]),
        ("/robot1/vla", ["/robot1/vla/vla_reasoner: Camera"]),
        ("/", ["/vla_reasoner: Camera"]),
    ],
)
def test_diagnostics_of_other_robots_are_left_out(namespace, ours):
    state = state_of(namespace)
    all_names = [
        "/vla/vla_reasoner: Camera",
        "/robot1/vla/vla_reasoner: Camera",
        "/vla/arm/bridge: Robot",
        "/vla2/vla_reasoner: Camera",
        "/vla_reasoner: Camera",
        "vla_reasoner: driver",
        "",
    ]
    state.take_diagnostics(array(*map(status, all_names)), 1.0, 1.0)
    assert set(names(state)) - {"vla_reasoner: driver", ""} == set(ours)


def test_the_reasoner_s_own_status_comes_before_another_node_s():
    state = state_of()
    state.take_status(cycle(1), 1.0, 1.0)
    state.take_diagnostics(
        array(status(f"{NODE}: Camera", message="mine"), status("/vla/other: Camera", message="other")),
        1.0,
        1.0,
    )
    assert state.subject("Camera").reading.message == "mine" and state.node == NODE
    assert state.subject("Robot") is None


def test_without_cycles_the_node_is_the_one_with_a_deadline():
    state = state_of()
    assert state.node == ""
    state.take_diagnostics(array(status(f"{NODE}: Deadline", deadline_ms=33)), 1.0, 1.0)
    assert state.node == NODE and state.deadline_ms() == 33.0


def test_cycles_without_a_message_are_counted_by_their_numbers():
    state = state_of()
    for number in (5, 6, 9, 9, 10):
        state.take_status(cycle(number), 1.0, 1.0)
    assert state.minute.total(1.0).unseen == 2 and state.restarts == 0


def test_numbers_that_go_back_are_a_new_run_with_its_time():
    state = state_of()
    for number in (100, 101, 1, 2):
        state.take_status(cycle(number), 1.0, 7.0)
    (fault,) = state.faults.newest(9)
    assert (fault.level, fault.began_s, fault.ended_s) == (WARN, 7.0, 7.0)
    assert fault.message == "a new run: cycle 1 came after cycle 101"
    assert state.restarts == 1 and state.minute.total(1.0).unseen == 0


def test_two_reasoners_on_one_topic_are_no_restarts():
    state = state_of()
    for number in range(50):
        state.take_status(cycle(number + 1000, node="/vla/a"), 1.0, 1.0)
        state.take_status(cycle(number, node="/vla/b"), 1.0, 1.0)
    assert state.restarts == 0 and state.minute.total(1.0).total == 100


@pytest.mark.parametrize("number", ["", "nan", "-inf", "1e308", "x"])
def test_a_cycle_without_a_number_is_counted_all_the_same(number):
    state = state_of()
    for each in (1, number, 2):
        state.take_status(cycle(each), 1.0, 1.0)
    assert state.minute.total(1.0).total == 3


def test_the_zero_motion_that_ends_a_run_is_no_cycle():
    state = state_of()
    state.take_status(cycle(1), 1.0, 1.0)
    state.take_status(cycle(1, "stopped", "zero"), 2.0, 2.0)
    assert state.minute.total(2.0).total == 1 and state.cycle.reading.text("outcome") == "stopped"


def test_nodes_that_come_and_go_for_months_fill_no_memory():
    state = state_of()
    for number in range(3 * MOST_NAMES):
        state.take_status(cycle(1, node=f"/vla/n{number}"), 1.0, 1.0)
        state.take_diagnostics(array(status(f"/vla/n{number}: Camera", level=WARN)), 1.0, 1.0)
    assert len(names(state)) == MOST_NAMES and len(state._numbers) == MOST_NAMES
    assert f"/vla/n{3 * MOST_NAMES - 1}: Camera" in names(state)


def test_the_last_episode_is_kept():
    state = state_of()
    state.take_episode(array(status("/vla/tabletop: Episode", episode=3)), 4.0)
    state.take_episode(array(), 5.0)
    assert (state.episode.reading.text("episode"), state.episode.at_s) == ("3", 4.0)
