# SPDX-License-Identifier: Apache-2.0
"""Which actions the simulated robot follows, and for how long."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy", reason="actions are ROS messages")

from builtin_interfaces.msg import Duration, Time  # noqa: E402
from diagnostic_msgs.msg import DiagnosticStatus  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint  # noqa: E402

from vla_edge_ros.ros.robot_input import REASONS, RefusedActionError, RobotInput, read_action  # noqa: E402

pytestmark = pytest.mark.ros
NOW_NS = 1_700_000_000 * 10**9
MS = 10**6


def action(
    values=(0.1, -0.2), names=("vx", "vy"), age_ms=0.0, validity_ms=100.0, points=1
) -> JointTrajectory:
    stamp_s, stamp_ns = divmod(NOW_NS - round(age_ms * MS), 10**9)
    point = JointTrajectoryPoint(positions=list(values))
    seconds, nanoseconds = divmod(round(validity_ms * MS), 10**9)
    point.time_from_start = Duration(sec=seconds, nanosec=nanoseconds)
    message = JointTrajectory(joint_names=list(names), points=[point] * points)
    message.header.stamp = Time(sec=stamp_s, nanosec=stamp_ns)
    return message


def robot(timeout_s: float = 10.0) -> RobotInput:
    made = RobotInput(timeout_s)
    made.begin(100.0)
    return made


@pytest.mark.parametrize(
    ("age_ms", "seconds"), [(0, 0.1), (30, 0.07), (100, 0.0), (5000, 0.0), (-20, 0.1), (-5000, 0.1)]
)
def test_an_action_may_be_followed_until_its_stamp_plus_its_validity(age_ms, seconds):
    values, valid_s = read_action(action(age_ms=age_ms), NOW_NS)
    assert values == [0.1, -0.2] and valid_s == pytest.approx(seconds)


def test_a_stamp_of_zero_means_now():
    message = action()
    message.header.stamp = Time()
    assert read_action(message, NOW_NS)[1] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("bad", "reason", "says"),
    [
        ({"names": ("vy", "vx")}, "names", "joint_names must be vx, vy, got vy, vx"),
        ({"names": ()}, "names", "got none"),
        ({"names": ("terminate", "dx")}, "names", "got terminate, dx"),
        ({"points": 0}, "points", "must have one point, got 0"),
        ({"points": 2}, "points", "must have one point, got 2"),
        ({"values": (0.1,)}, "size", "must have 2 positions, got 1"),
        ({"values": (0.1, 0.1, 0.1)}, "size", "got 3"),
        ({"values": (0.1, float("nan"))}, "values", "must be finite"),
        ({"values": (float("-inf"), 0.0)}, "values", "must be finite"),
        ({"validity_ms": -1.0}, "duration", "must not be negative, got -0.001 s"),
    ],
)
def test_a_bad_action_is_refused_counted_and_an_error_until_a_good_one_comes(bad, reason, says):
    with pytest.raises(RefusedActionError, match=says) as raised:
        read_action(action(**bad), NOW_NS)
    assert raised.value.reason == reason
    taken = robot()
    assert says in taken.receive(action(**bad), NOW_NS, 100.0)
    assert taken.refused == {reason: 1} and taken.accepted == 0
    status = taken.diagnose("/vla/tabletop", True, 1, 100.0)
    assert status.level == DiagnosticStatus.ERROR and says in status.message
    assert {value.key: value.value for value in status.values}[f"refused_{reason}"] == "1"
    assert taken.receive(action(), NOW_NS, 100.1) == ""
    assert taken.diagnose("/vla/tabletop", True, 1, 100.1).level == DiagnosticStatus.OK


def test_every_reason_has_its_key():
    keys = {value.key for value in robot().diagnose("/r", False, 0, 0.0).values}
    assert {f"refused_{reason}" for reason in REASONS} <= keys


def test_a_refused_action_leaves_the_one_before_in_force():
    taken = robot()
    taken.receive(action(), NOW_NS, 100.0)
    taken.receive(action(values=(float("nan"), 0.0)), NOW_NS, 100.02)
    assert taken.mean_velocity(100.05) == pytest.approx([0.1, -0.2])


def test_silence_stops_the_arm_when_the_action_ends():
    taken = robot()
    taken.receive(action(validity_ms=100.0), NOW_NS, 100.0)
    assert taken.mean_velocity(100.1) == pytest.approx([0.1, -0.2])
    assert taken.mean_velocity(100.2) == pytest.approx([0.0, 0.0])
    assert taken.mean_velocity(500.0) == pytest.approx([0.0, 0.0])


def test_the_robots_own_timeout_ends_an_action_that_says_it_holds_for_hours():
    taken = robot(timeout_s=0.2)
    taken.receive(action(validity_ms=3_600_000.0), NOW_NS, 100.0)
    taken.mean_velocity(100.2)
    assert taken.mean_velocity(101.0) == pytest.approx([0.0, 0.0])


def test_an_expired_action_is_a_stop_and_not_ignored():
    taken = robot()
    taken.receive(action(validity_ms=1000.0), NOW_NS, 100.0)
    taken.receive(action(values=(0.0, 0.0), age_ms=60_000.0), NOW_NS, 100.1)
    taken.mean_velocity(100.1)
    assert taken.mean_velocity(100.2) == pytest.approx([0.0, 0.0])


def test_each_action_counts_for_as_long_as_it_was_in_force():
    taken = robot()
    taken.receive(action(values=(0.1, 0.0), validity_ms=500.0), NOW_NS, 100.0)
    taken.receive(action(values=(0.3, 0.0), validity_ms=500.0), NOW_NS, 100.02)
    # 20 ms at 0.1, 10 ms at 0.3
    assert taken.mean_velocity(100.03) == pytest.approx([(0.02 * 0.1 + 0.01 * 0.3) / 0.03, 0.0])


def test_a_new_episode_does_not_follow_the_action_of_the_last_one():
    taken = robot()
    taken.receive(action(validity_ms=5000.0), NOW_NS, 100.0)
    taken.begin(100.1)
    assert taken.mean_velocity(100.2) == pytest.approx([0.0, 0.0])


@settings(max_examples=50)
@given(st.lists(st.tuples(st.floats(0.0, 0.3), st.floats(-0.4, 0.4), st.floats(0.0, 400.0)), max_size=8))
def test_the_hand_goes_the_sum_of_the_ways_of_all_actions(messages):
    taken, now_s, expected = robot(timeout_s=0.25), 100.0, 0.0
    pieces = [*messages, (0.5, 0.0, 0.0)]
    for (_, vx, validity_ms), (gap_s, _, _) in zip(pieces, pieces[1:], strict=False):
        taken.receive(action(values=(vx, 0.0), validity_ms=validity_ms), NOW_NS, now_s)
        expected += vx * min(gap_s, 0.25, validity_ms / 1000)
        now_s += gap_s
    assert taken.mean_velocity(now_s + 1.0)[0] * (now_s + 1.0 - 100.0) == pytest.approx(expected, abs=1e-6)


def test_silence_and_two_publishers_show_in_the_diagnostics():
    taken = robot()
    assert taken.diagnose("/r", True, 0, 100.0).message == "no action yet: the arm stands"
    taken.receive(action(), NOW_NS, 100.0)
    assert taken.diagnose("/r", True, 1, 103.0).level == DiagnosticStatus.WARN
    assert taken.diagnose("/r", False, 1, 103.0).level == DiagnosticStatus.OK
    assert taken.diagnose("/r", True, 2, 100.1).level == DiagnosticStatus.ERROR
