# SPDX-License-Identifier: Apache-2.0
"""What controllers and watchers read: values, names, stamps, validity, and stable keys."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

pytest.importorskip("rclpy", reason="messages need rclpy's type support")

from builtin_interfaces.msg import Time  # noqa: E402
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus  # noqa: E402
from rclpy.serialization import deserialize_message, serialize_message  # noqa: E402

from vla_edge_ros.config import ACTION_NAMES, ActionConfig  # noqa: E402
from vla_edge_ros.ros.messages import to_status, to_time, to_trajectory  # noqa: E402
from vla_edge_ros.types import (  # noqa: E402
    Action,
    ActionSource,
    ChunkTimes,
    CycleRecord,
    Decision,
    Outcome,
    Reason,
    Remembered,
)

pytestmark = pytest.mark.ros

STAMP_NS = 1_700_000_123_456_789_012
VALUES = np.array([0.0, 0.1, -0.2, 0.3, -0.4, 0.5, -0.6, 1.0])
ACTION = Action(VALUES, STAMP_NS)


def record(outcome: Outcome = Outcome.ACTED, **fields) -> CycleRecord:
    return CycleRecord(cycle=7, outcome=outcome, **fields)


def values_of(record: CycleRecord) -> dict[str, str]:
    status = to_status(record, "vla_reasoner", now_ns=5).status[0]
    return {pair.key: pair.value for pair in status.values}


def test_trajectory_carries_names_values_and_the_frames_stamp():
    message = to_trajectory(ACTION, ActionConfig(validity_ms=1250.0, frame_id="wrist"))
    assert tuple(message.joint_names) == ACTION_NAMES
    assert len(message.points) == 1
    assert list(message.points[0].positions) == VALUES.tolist()
    assert message.header.stamp.sec * 10**9 + message.header.stamp.nanosec == STAMP_NS
    assert message.header.frame_id == "wrist"
    validity = message.points[0].time_from_start
    assert (validity.sec, validity.nanosec) == (1, 250_000_000)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_never_becomes_a_message(bad):
    values = VALUES.copy()
    values[3] = bad
    with pytest.raises(ValueError, match="finite"):
        to_trajectory(Action(values, STAMP_NS), ActionConfig())


def test_status_has_the_stamp_of_the_cycles_action():
    stamp = to_status(record(action=ACTION), "n", now_ns=5).header.stamp
    assert stamp.sec * 10**9 + stamp.nanosec == STAMP_NS


def test_status_without_an_action_is_stamped_now():
    stamp = to_status(record(Outcome.NO_FRAME_YET), "n", now_ns=3_000_000_005).header.stamp
    assert (stamp.sec, stamp.nanosec) == (3, 5)


def test_status_says_what_the_cycle_decided_and_measured():
    full = record(
        source=ActionSource.FRESH,
        action=ACTION,
        frame_sequence=42,
        frame_age_ms=3.25,
        decision=Decision(True, Reason.WITHIN_BUDGET, 0.5, 12.5, 31.0),
        times=ChunkTimes(96, vision_ms=1.0, prefill_ms=4.0, decode_ms=(1.0, 1.5), completed=True),
        slots_in_use=96,
        evicted_sequence=3,
        latency_ms=9.125,
    )
    values = values_of(full)
    expected = {
        "outcome": "acted",
        "source": "fresh",
        "frame_sequence": "42",
        "age_ms": "3.250",
        "admission": "admit",
        "admission_reason": "within_budget",
        "predicted_ms": "12.500",
        "budget_ms": "31.000",
        "decode_ms": "2.500",
        "decode_steps": "2",
        "evicted_sequence": "3",
        "latency_ms": "9.125",
    }
    assert expected.items() <= values.items()


def test_status_says_what_was_remembered_without_an_action():
    told = values_of(record(Outcome.ABORTED, remembered=True, remembered_before=Remembered(41, 3, 0.5, 4.25)))
    assert (told["remembered"], told["remembered_before"], told["remembered_before_ms"]) == (
        "1",
        "41",
        "4.750",
    )
    nothing = values_of(record())
    assert (nothing["remembered"], nothing["remembered_before"]) == ("0", "0")
    assert nothing["remembered_before_ms"] == "nan"


def test_status_says_how_old_the_frame_behind_the_action_is():
    """Fault A4: from the camera's stamp to the message, also where the action is a repeat."""
    for source in (ActionSource.FRESH, ActionSource.REPEAT):
        status = to_status(record(source=source, action=ACTION), "n", STAMP_NS + 41_500_000).status[0]
        assert {pair.key: pair.value for pair in status.values}["sensor_to_action_ms"] == "41.500"
    assert values_of(record(Outcome.NO_FRAME_YET))["sensor_to_action_ms"] == "nan"


def test_status_keys_are_the_same_in_every_outcome():
    keys = list(values_of(record()))
    assert all(list(values_of(record(outcome))) == keys for outcome in Outcome)


@pytest.mark.parametrize(
    ("outcome", "source", "level"),
    [
        (Outcome.ACTED, ActionSource.FRESH, DiagnosticStatus.OK),
        (Outcome.NO_NEW_FRAME, ActionSource.REPEAT, DiagnosticStatus.WARN),
        (Outcome.REFUSED, ActionSource.REPEAT, DiagnosticStatus.WARN),
        (Outcome.STALE_FRAME, ActionSource.ZERO, DiagnosticStatus.ERROR),
        (Outcome.ENGINE_ERROR, ActionSource.REPEAT, DiagnosticStatus.ERROR),
        (Outcome.STOPPED, ActionSource.ZERO, DiagnosticStatus.OK),
    ],
)
def test_status_level_follows_from_outcome_and_source(outcome, source, level):
    assert to_status(record(outcome, source=source, action=ACTION), "n", 0).status[0].level == level


@given(
    record=st.builds(
        CycleRecord,
        cycle=...,
        outcome=...,
        source=...,
        action=st.none() | st.builds(Action, st.lists(st.floats(), max_size=9).map(np.array), st.integers()),
        repeat_streak=...,
        frame_sequence=...,
        frame_stamp_ns=...,
        frame_age_ms=...,
        decision=...,
        times=...,
        tokens=...,
        evicted_sequence=...,
        remembered=...,
        remembered_before=...,
        slots_in_use=...,
        skipped_cycles=...,
        latency_ms=...,
        error=st.text(st.characters()),  # lone surrogates too
    ),
    now_ns=st.integers(),
)
@example(record=CycleRecord(1, Outcome.ENGINE_ERROR, error="no such file: /models/caf\udce9"), now_ns=0)
@settings(max_examples=200, deadline=None)
def test_any_record_has_a_status_that_can_be_sent(record, now_ns):
    sent = deserialize_message(serialize_message(to_status(record, "vla_reasoner", now_ns)), DiagnosticArray)
    values = {pair.key: pair.value for pair in sent.status[0].values}
    assert values["cycle"] == str(record.cycle) and values["outcome"] == record.outcome.value
    assert values["decode_steps"] == str(len(record.times.decode_ms) if record.times else 0)
    assert list(values) == list(values_of(CycleRecord(0, Outcome.ACTED)))


def test_a_stamp_that_no_message_can_carry_is_the_nearest_one():
    assert to_time(-1) == Time(sec=0, nanosec=0)
    assert to_time(2**31 * 10**9 + 5) == Time(sec=2**31 - 1, nanosec=999_999_999)


def test_status_tells_the_engines_error():
    message = to_status(record(Outcome.ENGINE_ERROR, error="kernel 7 failed"), "n", 0).status[0].message
    assert "kernel 7 failed" in message


def test_an_age_between_two_clocks_is_not_a_number():
    """After use_sim_time has been changed the frame's stamp and the time are of two clocks."""
    status = to_status(record(action=ACTION, frame_age_ms=1.8e12), "n", STAMP_NS + 1_800_000_000 * 10**9)
    values = {pair.key: pair.value for pair in status.status[0].values}
    assert (values["age_ms"], values["sensor_to_action_ms"]) == ("nan", "nan")
