# SPDX-License-Identifier: Apache-2.0
"""docs/reference/status.md names every key that the node publishes, and no other, where it belongs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="keys are read from messages")

from vla_edge_ros.config import TimingConfig  # noqa: E402
from vla_edge_ros.ros.diagnostics import diagnose  # noqa: E402
from vla_edge_ros.ros.health import ActionHealth, CameraHealth, EngineHealth  # noqa: E402
from vla_edge_ros.ros.messages import to_status  # noqa: E402
from vla_edge_ros.runtime.metrics import RunMetrics  # noqa: E402
from vla_edge_ros.types import ActionSource, CycleRecord, Outcome, Reason  # noqa: E402

pytestmark = pytest.mark.ros

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "status.md").read_text(encoding="utf-8")


def section(title: str) -> set[str]:
    """Everything in the first column of the tables from this heading to the next one."""
    text = re.split(rf"^#+ {re.escape(title)}$", PAGE, maxsplit=1, flags=re.MULTILINE)[1]
    body = re.split(r"^#+ ", text, maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line for line in body.splitlines() if line.startswith("|")]
    headings = {lines[i - 1] for i, line in enumerate(lines) if line.startswith("|---")}
    rows = [line.split("|")[1] for line in lines if line not in headings]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_the_keys_of_a_cycle():
    message = to_status(CycleRecord(1, Outcome.ACTED), "node", 0).status[0]
    assert section("`status`: one cycle") == {value.key for value in message.values}


STATUSES = {
    status.name.removeprefix("node: "): status
    for status in diagnose(
        "node", TimingConfig(), CameraHealth(), RunMetrics(33.0).snapshot(), ActionHealth(), EngineHealth()
    )
}


@pytest.mark.parametrize("subject", STATUSES)
def test_the_keys_of_a_subject(subject):
    assert section(subject) == {value.key for value in STATUSES[subject].values}


@pytest.mark.parametrize(
    ("title", "values"),
    [
        ("Outcomes", Outcome),
        ("Sources", ActionSource),
        ("Reasons of admission", [*Reason, ActionSource.NONE]),
    ],
)
def test_every_value_of_an_enumeration(title, values):
    assert section(title) == {value.value for value in values}
