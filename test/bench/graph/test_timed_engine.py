# SPDX-License-Identifier: Apache-2.0
"""The timer passes everything through and keeps the slowest."""

from __future__ import annotations

import time

import numpy as np
import pytest

from vla_edge_ros.bench.graph.timed_engine import EngineCall, SlowestCalls, TimedEngine
from vla_edge_ros.bench.wrapped_engine import WrappedEngine
from vla_edge_ros.engines.base import Decoded, Vision
from vla_edge_ros.errors import EngineError
from vla_edge_ros.types import CacheView, MemoryReport

VIEW = CacheView(np.zeros(1, np.int32), np.full(1, 32, np.int32), 1)
VISION = Vision(np.ones(3, np.float32), 0.25)
DECODED = Decoded((3, 1, 4), (0.5, 0.75), False)
REPORT = MemoryReport({"weights": 5}, 9)


class Scripted:
    """Sleeps in ``prefill`` as long as it is told to, and remembers what it was given."""

    name = "scripted"

    def __init__(self):
        self.given = []
        self.prefill_s = 0.0

    def load(self):
        self.given.append("load")

    def write_prompt(self, token_ids, pages):
        self.given.append(("write_prompt", token_ids, pages))

    def embed_frame(self, pixels):
        self.given.append(("embed_frame", pixels))
        return VISION

    def prefill(self, view, draft=(), suffix=()):
        self.given.append(("prefill", view, draft))
        time.sleep(self.prefill_s)
        return 0.125

    def decode(self, view, count, should_stop):
        self.given.append(("decode", view, count, should_stop))
        return DECODED

    def memory(self):
        return REPORT

    def close(self):
        self.given.append("close")


@pytest.mark.parametrize("wrap", [WrappedEngine, lambda inner: TimedEngine(inner, SlowestCalls())])
def test_calls_and_results_pass_through_unchanged(wrap):
    inner = Scripted()
    engine = wrap(inner)
    pixels, ids = np.zeros((2, 2, 3), np.uint8), np.array([1])

    def never_stop(step_ms):
        return False

    engine.load()
    engine.write_prompt(ids, [4])
    assert engine.embed_frame(pixels) is VISION
    assert engine.prefill(VIEW, [1, 2]) == 0.125
    assert engine.decode(VIEW, 3, never_stop) is DECODED
    assert engine.memory() is REPORT and engine.name == "scripted"
    engine.close()
    assert inner.given == [
        "load", ("write_prompt", ids, [4]), ("embed_frame", pixels), ("prefill", VIEW, [1, 2]),
        ("decode", VIEW, 3, never_stop), "close",
    ]  # fmt: skip


def test_each_call_is_timed_beside_its_device_time():
    calls = SlowestCalls()
    engine = TimedEngine(Scripted(), calls)
    engine.embed_frame(None)
    engine.prefill(VIEW)
    engine.decode(VIEW, 3, lambda _: False)
    device_ms = {call.call: call.device_ms for call in calls.slowest_first()}
    assert device_ms == {"embed_frame": 0.25, "prefill": 0.125, "decode": 1.25}


def test_a_slow_call_is_first_with_its_time_and_no_work_of_its_own():
    inner, calls = Scripted(), SlowestCalls()
    engine = TimedEngine(inner, calls)
    before_ns = time.monotonic_ns()
    inner.prefill_s = 0.05
    engine.prefill(VIEW)
    slowest = calls.slowest_first()[0]
    assert slowest.call == "prefill" and slowest.wall_ms >= 50 and slowest.wall_ms > slowest.cpu_ms
    assert before_ns <= slowest.began_ns <= time.monotonic_ns()


def test_the_slowest_of_each_kind_are_kept_in_order():
    calls = SlowestCalls(kept=2)
    for began_ns, (kind, wall_ms) in enumerate(
        [("decode", 7.0), ("decode", 9.0), ("prefill", 2.0), ("decode", 8.0), ("prefill", 1.0)]
    ):
        calls.add(EngineCall(wall_ms, began_ns, kind, 0.0, 0.0))
    assert [(call.call, call.wall_ms) for call in calls.slowest_first()] == [
        ("decode", 9.0), ("decode", 8.0), ("prefill", 2.0), ("prefill", 1.0),
    ]  # fmt: skip
    calls.forget()
    assert calls.slowest_first() == []


def test_an_exception_passes_through():
    class Broken(Scripted):
        def prefill(self, view, draft=(), suffix=()):
            raise EngineError("not finite")

    calls = SlowestCalls()
    with pytest.raises(EngineError, match="not finite"):
        TimedEngine(Broken(), calls).prefill(VIEW)
    assert calls.slowest_first() == []
