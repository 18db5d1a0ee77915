# SPDX-License-Identifier: Apache-2.0
"""The series that PlotJuggler makes of messages, named as its ROS parser names them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from sensor_msgs.msg import JointState


def numeric_series(messages: dict[str, Any]) -> set[str]:
    """The names of all that can be plotted; texts cannot."""
    return {name for topic, message in messages.items() for name in _of(topic, message)}


def _of(prefix: str, value: Any) -> Iterator[str]:
    if isinstance(value, DiagnosticArray):
        yield from _of_diagnostics(prefix, value)
    elif isinstance(value, JointState):
        yield from (f"{prefix}/{name}/position" for name in value.name[: len(value.position)])
    elif hasattr(value, "get_fields_and_field_types"):
        for field in value.get_fields_and_field_types():
            yield from _of(f"{prefix}/{field}", getattr(value, field))
    elif isinstance(value, int | float):
        yield prefix
    elif not isinstance(value, str | bytes):
        for index, item in enumerate(value):
            yield from _of(f"{prefix}[{index}]", item)


def _of_diagnostics(topic: str, message: DiagnosticArray) -> Iterator[str]:
    for status in message.status:
        hardware = f"/{status.hardware_id}" if status.hardware_id else ""
        for pair in status.values:
            try:
                float(pair.value)
            except ValueError:
                continue
            yield f"{topic}{hardware}/{status.name}/{pair.key}"
