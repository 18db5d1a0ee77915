# SPDX-License-Identifier: Apache-2.0
"""A changed instruction on its way to the reasoner: by the topic and by the parameter, through one gate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rclpy.parameter import Parameter

from vla_edge_ros.config import PromptConfig
from vla_edge_ros.ros.guarded_lifecycle import GuardedLifecycleNode
from vla_edge_ros.ros.parameters import LiveParameter
from vla_edge_ros.runtime.reasoner import Reasoner

INSTRUCTION = "prompt.instruction"


class InstructionChange:
    """``reasoner`` and ``prompt``: those of the configuration that stands; no reasoner without one."""

    def __init__(
        self,
        node: GuardedLifecycleNode,
        reasoner: Callable[[], Reasoner | None],
        prompt: Callable[[], PromptConfig],
    ):
        self._node = node
        self._reasoner = reasoner
        self._prompt = prompt
        self.parameter = LiveParameter(self._check, self._change)

    def receive(self, text: str) -> None:
        """From the topic: sets the parameter. A refusal is logged, and the old instruction stays."""
        result = self._node.set_parameters([Parameter(INSTRUCTION, value=text)])[0]
        if not result.successful:
            self._node.get_logger().warning(
                f"instruction refused, the old one stays: {result.reason}", throttle_duration_sec=1.0
            )

    def _check(self, text: str) -> None:
        with self._node.turn:
            replace(self._prompt(), instruction=text)
            if (reasoner := self._reasoner()) is not None:
                reasoner.check_instruction(text)

    def _change(self, text: str) -> None:
        with self._node.turn:
            if (reasoner := self._reasoner()) is not None and reasoner.set_instruction(text):
                # Throttled: a planner may send one every cycle.
                self._node.get_logger().info(f"instruction: {text}", throttle_duration_sec=1.0)
