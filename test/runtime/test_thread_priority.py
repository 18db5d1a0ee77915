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
    assert in_a_thread(lambda: (take_realtime_priority(0), os.sched_getscheduler(0))) == ("", os.SCHED_OTHER)


def test_only_the_asking_thread_becomes_realtime():
    refusal, policy = in_a_thread(lambda: (take_realtime_priority(5), os.sched_getscheduler(0)))
    if refusal:
        pytest.skip(refusal)
    assert policy == os.SCHED_FIFO
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_refusal_names_parameter_and_reason(monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    assert "timing.realtime_priority 5 was not granted" in take_realtime_priority(5)
    assert "not permitted" in take_realtime_priority(5)
