# SPDX-License-Identifier: Apache-2.0
"""Giving the reasoner an instruction, and knowing when it works by it and has forgotten what was before."""

from __future__ import annotations

import time
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.msg import ParameterType
from rcl_interfaces.srv import GetParameters
from rclpy.client import Client
from rclpy.node import Node
from rclpy.task import Future
from std_msgs.msg import String

from vla_edge_ros.ros.instruction_change import INSTRUCTION
from vla_edge_ros.ros.instruction_input import TOPIC
from vla_edge_ros.ros.qos import instruction_qos, status_qos

ANSWER_S = 2.0  # after which the reasoner is asked again
# A change takes effect between two cycles: the first status behind it may be of a cycle that began before,
# and another one may have waited in the queue.
CYCLES_TO_TAKE = 3


class InstructionDelivery:
    """Used by one thread, while ``node`` is spun. ``reasoner``: a node's name, empty: nobody is asked."""

    def __init__(self, node: Node, reasoner: str):
        self._publisher = node.create_publisher(String, TOPIC, instruction_qos(latched=True))
        self._text = ""
        self._cycles = 0
        self._taken_in: int | None = None
        self._client: Client[Any, Any] | None = None
        self._answer: Future[Any] | None = None
        self._asked_s = 0.0
        if reasoner:
            self._client = node.create_client(GetParameters, f"{reasoner}/get_parameters")
            node.create_subscription(DiagnosticArray, "status", self._count, status_qos())

    def give(self, text: str) -> None:
        """Publish it; a reasoner that starts later gets it too."""
        self._text, self._taken_in = text, None
        self._forget_question()
        self._publisher.publish(String(data=text))

    def is_taken(self) -> bool:
        """Whether the reasoner has begun a cycle with it; never waits. Call this until it is so."""
        if self._client is None:
            return True
        if self._taken_in is None:
            self._ask(self._client)
            return False
        return self._cycles - self._taken_in >= CYCLES_TO_TAKE

    def _count(self, message: DiagnosticArray) -> None:
        self._cycles += 1

    def _ask(self, client: Client[Any, Any]) -> None:
        if self._answer is not None and self._answer.done():
            response, self._answer = self._answer.result(), None
            if response is not None and [self._text] == [
                value.string_value
                for value in response.values
                if value.type == ParameterType.PARAMETER_STRING
            ]:
                self._taken_in = self._cycles
                return
        if self._answer is not None and time.monotonic() - self._asked_s > ANSWER_S:
            self._forget_question()
        if self._answer is None and client.service_is_ready():
            self._asked_s = time.monotonic()
            self._answer = client.call_async(GetParameters.Request(names=[INSTRUCTION]))

    def _forget_question(self) -> None:
        if self._answer is not None and self._client is not None:
            self._client.remove_pending_request(self._answer)
        self._answer = None
