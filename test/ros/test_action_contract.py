# SPDX-License-Identifier: Apache-2.0
"""docs/reference/action.md on the wire: fresh, repeat and stop cannot be taken for one another."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("rclpy", reason="messages need rclpy's type support")

from rclpy.serialization import deserialize_message, serialize_message  # noqa: E402
from trajectory_msgs.msg import JointTrajectory  # noqa: E402

from vla_edge_ros.config import ActionConfig, FallbackConfig  # noqa: E402
from vla_edge_ros.model.action_head import ActionHead  # noqa: E402
from vla_edge_ros.ros.messages import is_stop, to_status, to_trajectory  # noqa: E402
from vla_edge_ros.runtime.fallback import FallbackLadder  # noqa: E402
from vla_edge_ros.types import NS_PER_MS, Action, ActionSource, CycleRecord, Outcome  # noqa: E402

pytestmark = pytest.mark.ros

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "action.md"
STAMP_NS = 1_700_000_000_250_000_000
BRIDGE = ActionConfig(
    names=("dx", "dy", "dz", "droll", "dpitch", "dyaw", "gripper"),
    kinds=("delta",) * 6 + ("position",),
    units=("m",) * 3 + ("rad",) * 3 + ("1",),
    training_hz=5.0,
    low=(-0.02872725, -0.0417035, -0.02609386, -0.08092105, -0.092887, -0.20718276, -1.0),
    high=(0.02830968, 0.04085525, 0.04016159, 0.0819205, 0.07792851, 0.20382575, 1.0),
    bin_rule="centres",
    dead_band_bins=0.5,
)


def sent(source: ActionSource, action: Action) -> JointTrajectory:
    """As it arrives: through the middleware's own serialisation."""
    return deserialize_message(serialize_message(to_trajectory(action, BRIDGE, source)), JointTrajectory)


def ladder(config: ActionConfig = BRIDGE, **options) -> FallbackLadder:
    return FallbackLadder(FallbackConfig(**options), config)


def stamp_ns(message: JointTrajectory) -> int:
    return message.header.stamp.sec * 10**9 + message.header.stamp.nanosec


def validity_ns(message: JointTrajectory) -> int:
    duration = message.points[0].time_from_start
    return duration.sec * 10**9 + duration.nanosec


def as_plain(value):
    """A message as ``ros2 topic echo`` shows it, numbers rounded as on the page."""
    if hasattr(value, "get_fields_and_field_types"):
        return {name: as_plain(getattr(value, name)) for name in value.get_fields_and_field_types()}
    if isinstance(value, str | int):
        return value
    return round(value, 6) if isinstance(value, float) else [as_plain(item) for item in value]


def examples() -> dict[str, JointTrajectory]:
    head, rungs = ActionHead(BRIDGE, 32_000), ladder(max_repeats=1)
    fresh = Action(head.decode(head.encode([0.01, 0, 0, 0, 0, 0, 1.0])), STAMP_NS)
    rungs.acted(fresh)
    return {
        "fresh": sent(ActionSource.FRESH, fresh),
        "repeat": sent(*rungs.answer(STAMP_NS + 33 * NS_PER_MS)),
        "stop": sent(*rungs.answer(STAMP_NS + 300 * NS_PER_MS)),
    }


@pytest.mark.parametrize("name", ["fresh", "stop"])
def test_the_messages_of_the_page_are_the_code_s(name):
    written = re.search(rf"<!-- wire: {name} -->\n```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    expected = as_plain(examples()[name])
    assert yaml.safe_load(written[1]) == expected, yaml.safe_dump(expected, sort_keys=False)


def test_a_repeat_is_the_fresh_message_word_for_word():
    shown = examples()
    assert shown["repeat"] == shown["fresh"] and not is_stop(shown["repeat"])


def test_only_a_stop_has_velocities_and_they_are_zero():
    shown = examples()
    assert [name for name, message in shown.items() if is_stop(message)] == ["stop"]
    assert list(shown["stop"].points[0].velocities) == [0.0] * 7


def test_a_policy_that_wants_to_stand_is_no_stop():
    still = Action(np.array([0.0] * 6 + [0.5]), STAMP_NS)
    message = sent(ActionSource.FRESH, still)
    assert not any(message.points[0].positions[:6]) and not is_stop(message)


@given(waited_ms=st.integers(0, 10**9), values=st.lists(st.floats(-1, 1), min_size=7, max_size=7))
def test_a_consumer_that_drops_what_is_old_gets_every_stop(waited_ms, values):
    rungs = ladder(mode="zero")
    rungs.acted(Action(np.array(values), STAMP_NS))
    for period in range(3):
        now_ns = STAMP_NS + (waited_ms + 33 * period) * NS_PER_MS
        message = sent(*rungs.answer(now_ns))
        assert 0 <= now_ns - stamp_ns(message) <= validity_ns(message)
        assert list(message.points[0].positions) == [0.0] * 6 + [values[6]] and is_stop(message)


def test_the_stop_that_ends_a_run_says_so_too():
    rungs = ladder()
    rungs.acted(Action(np.ones(7), STAMP_NS))
    last = sent(ActionSource.ZERO, rungs.zero_motion(STAMP_NS + 10**10))
    assert is_stop(last) and stamp_ns(last) == STAMP_NS + 10**10


def test_no_age_of_a_picture_is_told_of_a_stop():
    record = CycleRecord(1, Outcome.LATE, source=ActionSource.ZERO, action=Action(np.zeros(7), STAMP_NS))
    values = {pair.key: pair.value for pair in to_status(record, "n", STAMP_NS + 5).status[0].values}
    assert values["sensor_to_action_ms"] == "nan"
