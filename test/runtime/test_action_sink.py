# SPDX-License-Identifier: Apache-2.0
"""Observers see what was published, after it was."""

from __future__ import annotations

import pytest

from vla_edge_ros.runtime.action_sink import ObservedSink
from vla_edge_ros.types import CycleRecord, Outcome

RECORD = CycleRecord(1, Outcome.ACTED)


def test_published_first_then_shown_to_each_observer():
    order = []

    class Sink:
        def publish(self, record):
            order.append(("sink", record))

    ObservedSink(Sink(), [lambda r: order.append(("a", r)), lambda r: order.append(("b", r))]).publish(RECORD)
    assert order == [("sink", RECORD), ("a", RECORD), ("b", RECORD)]


def test_what_could_not_be_published_is_not_shown():
    shown = []

    class Broken:
        def publish(self, record):
            raise RuntimeError("context is invalid")

    with pytest.raises(RuntimeError):
        ObservedSink(Broken(), [shown.append]).publish(RECORD)
    assert shown == []
