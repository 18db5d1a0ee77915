# SPDX-License-Identifier: Apache-2.0
"""The priority holds for the thread that asks, and a refusal is a text."""

from __future__ import annotations

import os
import threading

import pytest

from vla_edge_ros.runtime.thread_priority import take_realtime_priority


def in_a_thread(task):
    result = []
    thread = threading.Thread(target=lambda: result.append(task()))
    thread.start()
    thread.join()
    return result[0]


def test_zero_changes_nothing():
    before = os.sched_getscheduler(0)
    assert in_a_thread(lambda: (take_realtime_priority(0), os.sched_getscheduler(0))) == ("", before)


def test_only_the_asking_thread_becomes_realtime():
    before = os.sched_getscheduler(0), os.sched_getparam(0).sched_priority
    refusal, policy, priority = in_a_thread(
        lambda: (take_realtime_priority(7), os.sched_getscheduler(0), os.sched_getparam(0).sched_priority)
    )
    if refusal:
        pytest.skip(refusal)
    assert (policy, priority) == (os.SCHED_FIFO, 7)
    assert (os.sched_getscheduler(0), os.sched_getparam(0).sched_priority) == before


def test_refusal_names_parameter_and_reason(monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    assert "timing.realtime_priority 5 was not granted" in take_realtime_priority(5)
    assert "not permitted" in take_realtime_priority(5)
