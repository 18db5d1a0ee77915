# SPDX-License-Identifier: Apache-2.0
"""Diagnostic arrays without ROS, as a monitor gets them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

NODE = "/vla/vla_reasoner"


def array(*statuses: Any) -> SimpleNamespace:
    return SimpleNamespace(status=list(statuses))


def status(name: str, level: Any = b"\x00", message: str = "", **values: Any) -> SimpleNamespace:
    pairs = [SimpleNamespace(key=key, value=str(value)) for key, value in values.items()]
    return SimpleNamespace(name=name, level=level, message=message, values=pairs)


def cycle(number: Any, outcome: str = "acted", source: str = "fresh", node: str = NODE, **values: Any) -> Any:
    known = {"admission_reason": "within_budget", "latency_ms": 10.0, "age_ms": 5.0}
    return array(
        status(f"{node}: Cycle", cycle=number, outcome=outcome, source=source, **{**known, **values})
    )
