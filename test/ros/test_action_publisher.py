# SPDX-License-Identifier: Apache-2.0
"""The sink between the control loop and the wire; and the health that is gathered from it."""

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="needs rclpy")

from rclpy.lifecycle import LifecycleNode  # noqa: E402

from vla_edge_ros.config import VlaConfig  # noqa: E402
from vla_edge_ros.ros.action_publisher import ActionPublisher  # noqa: E402
from vla_edge_ros.ros.health_watch import HealthWatch  # noqa: E402
from vla_edge_ros.types import Action, ActionSource, CycleRecord, MemoryReport, Outcome, Remembered  # noqa: E402

pytestmark = pytest.mark.ros


@pytest.fixture
def sink(ros_context):
    node = LifecycleNode("sink_test")
    made = ActionPublisher(node, VlaConfig(), lambda: 5)
    made.sent = []
    made._action.publish = made._status.publish = made.sent.append
    yield made
    node.destroy_node()


def test_a_cycle_without_an_action_sends_its_status_only(sink):
    sink.publish(CycleRecord(1, Outcome.NO_FRAME_YET))
    assert [type(message).__name__ for message in sink.sent] == ["DiagnosticArray"]


def test_a_cycle_with_an_action_sends_it_before_its_status(sink):
    sink.publish(CycleRecord(1, Outcome.ACTED, ActionSource.FRESH, Action(np.zeros(8), 1)))
    assert [type(message).__name__ for message in sink.sent] == ["JointTrajectory", "DiagnosticArray"]


def test_a_value_that_is_not_finite_is_not_sent(sink):
    with pytest.raises(ValueError, match="finite"):
        sink.publish(CycleRecord(1, Outcome.ACTED, ActionSource.FRESH, Action(np.full(8, np.nan), 1)))
    assert not sink.sent


def test_the_engines_health_has_the_caches_last_fill_and_all_evictions(sink):
    sink.publish(CycleRecord(1, Outcome.ACTED, slots_in_use=96, evicted_sequence=4))
    sink.publish(CycleRecord(2, Outcome.NO_NEW_FRAME))
    sink.publish(CycleRecord(3, Outcome.REFUSED, remembered_before=Remembered(7)))
    told = Remembered(8, evicted_sequence=5)
    sink.publish(CycleRecord(4, Outcome.ACTED, evicted_sequence=6, remembered_before=told))
    health = HealthWatch(sink._node).engine(VlaConfig(), sink, "numpy", MemoryReport({"weights": 7}))
    assert (health.slots_in_use, health.evictions, health.capacity_slots) == (96, 3, 4096)
    assert health.memory.total_bytes == 7
