# SPDX-License-Identifier: Apache-2.0
"""What a test asks of a node in a live graph: its statuses, its state, a transition."""

from __future__ import annotations

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState


def stamp_ns(message) -> int:
    return message.header.stamp.sec * 10**9 + message.header.stamp.nanosec


def newest(arrays: list[DiagnosticArray], name: str) -> DiagnosticStatus | None:
    """The last status with this subject."""
    for array in reversed(list(arrays)):
        for status in array.status:
            if status.name.endswith(f": {name}"):
                return status
    return None


def value(status: DiagnosticStatus, key: str) -> str:
    return next(pair.value for pair in status.values if pair.key == key)


def change(graph, transition_id: int) -> bool:
    """Ask for a lifecycle transition through the node's service, as ``ros2 lifecycle set`` does."""
    client = graph.tester.create_client(ChangeState, "vla_reasoner/change_state")
    assert client.wait_for_service(10.0)
    future = client.call_async(ChangeState.Request(transition=Transition(id=transition_id)))
    return graph.wait_until(future.done) and future.result().success


def state(graph) -> str:
    client = graph.tester.create_client(GetState, "vla_reasoner/get_state")
    assert client.wait_for_service(10.0)
    future = client.call_async(GetState.Request())
    graph.wait_until(future.done)
    return future.result().current_state.label
