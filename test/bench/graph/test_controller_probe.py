# SPDX-License-Identifier: Apache-2.0
"""The probe finds what it is there to find: it is fed runs with one fault each."""

from __future__ import annotations

import numpy as np
import pytest

from vla_edge_ros.config import ActionConfig
from vla_edge_ros.types import Action, ActionSource, CycleRecord, Outcome

pytestmark = pytest.mark.ros


def record(cycle: int, *, stamp_ns: int | None = None, source=ActionSource.FRESH, values=None) -> CycleRecord:
    stamp_ns = cycle * 1000 if stamp_ns is None else stamp_ns
    action = Action(np.full(8, 0.5) if values is None else np.asarray(values), stamp_ns)
    return CycleRecord(
        cycle, Outcome.ACTED, source=source, action=None if source is ActionSource.NONE else action
    )


def probe_of(records, lost_actions=()):
    from vla_edge_ros.bench.graph.controller_probe import ControllerProbe
    from vla_edge_ros.ros.messages import to_status, to_trajectory

    probe = ControllerProbe()
    for index, item in enumerate(records):
        if item.action is not None and index not in lost_actions:
            probe.on_action(to_trajectory(item.action, ActionConfig(), item.source))
        probe.on_status(to_status(item, "vla_reasoner", 0))
    return probe


def findings(records, lost_actions=()):
    return probe_of(records, lost_actions).findings()


STOP = record(-1, stamp_ns=10_000, source=ActionSource.ZERO, values=[0, 0, 0, 0, 0, 0, 0, 0.5])


def test_a_clean_run_has_nothing_to_report():
    found = findings([*(record(cycle) for cycle in range(3, 10)), STOP])
    assert (found.actions, found.cycles) == (8, 7)
    assert found.cycles_missing == found.cycles_twice == found.actions_missing == found.stamps_back == 0
    assert found.last_is_zero_motion


def test_cycles_count_from_the_first_action():
    waiting = [record(cycle, source=ActionSource.NONE) for cycle in (1, 2)]
    found = findings([*waiting, record(3), record(4), STOP])
    assert (found.actions, found.cycles, found.actions_missing) == (3, 2, 0)


def test_a_period_without_a_message_is_found():
    assert findings([record(1), record(2), record(4), STOP]).cycles_missing == 1


def test_a_period_with_two_messages_is_found():
    assert findings([record(1), record(2), record(2), STOP]).cycles_twice == 1


def test_a_lost_action_is_found():
    assert findings([record(1), record(2), record(3), STOP], lost_actions={1}).actions_missing == 1


def test_a_stamp_that_goes_back_is_found():
    assert findings([record(1), record(2, stamp_ns=500), record(3), STOP]).stamps_back == 1


def test_a_stop_has_the_time_now_and_the_next_action_may_be_of_an_older_frame():
    stop = record(2, stamp_ns=9_000, source=ActionSource.ZERO, values=[0] * 8)
    found = findings([record(1), stop, record(3), STOP])
    assert (found.stamps_back, found.actions, found.actions_missing) == (0, 4, 0)


def test_motion_in_the_last_message_is_found():
    assert not findings([record(1), record(2)]).last_is_zero_motion


def test_a_run_goes_from_the_first_action_to_the_zero_motion_at_its_end():
    waiting = record(1, source=ActionSource.NONE)
    assert not probe_of([waiting]).has_begun
    running = probe_of([waiting, record(2)])
    assert running.has_begun and not running.has_ended
    assert probe_of([waiting, record(2), STOP]).has_ended
