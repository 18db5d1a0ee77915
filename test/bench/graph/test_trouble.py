# SPDX-License-Identifier: Apache-2.0
"""The trouble-maker does what the timetable says and nothing between."""

from __future__ import annotations

import numpy as np
import pytest

from vla_edge_ros.bench.graph.trouble import ALL_KINDS, Timetable, TroubledEngine
from vla_edge_ros.engines.base import Decoded, Vision
from vla_edge_ros.types import CacheView

VIEW = CacheView(np.zeros(1, np.int32), np.full(1, 32, np.int32), 1)


class Steady:
    name = "steady"

    def embed_frame(self, pixels):
        return Vision(np.ones(3, np.float32), 0.01)

    def prefill(self, view, draft=(), suffix=()):
        return 0.02

    def decode(self, view, count, should_stop):
        steps = ()
        while len(steps) < count - 1:
            if should_stop(steps):
                return Decoded((0,), steps, True)
            steps += (0.01,)
        return Decoded((0,) * count, steps, False)


def engine_at(share: float) -> TroubledEngine:
    return TroubledEngine(Steady(), Timetable(ALL_KINDS, lambda: share))


def test_between_two_troubles_the_engine_is_itself():
    engine = engine_at(0.22)
    assert engine.prefill(VIEW) == 0.02
    assert np.isfinite(engine.embed_frame(None).embedding).all()
    assert engine.decode(VIEW, 4, lambda _: False).step_ms == (0.01,) * 3


def test_slow_engine_reports_three_times_the_time_also_to_the_stop_check():
    seen = []
    decoded = engine_at(0.15).decode(VIEW, 4, lambda steps: seen.append(steps) or False)
    assert decoded.step_ms == pytest.approx((0.03,) * 3)
    assert seen == [(), pytest.approx((0.03,)), pytest.approx((0.03, 0.03))]


def test_one_stall_only():
    engine = engine_at(0.251)
    assert engine.prefill(VIEW) == pytest.approx(500.02)
    assert engine.prefill(VIEW) == pytest.approx(0.02)


def test_garbage_in_its_window_only():
    assert np.isnan(engine_at(0.555).embed_frame(None).embedding).all()
    assert np.isfinite(engine_at(0.571).embed_frame(None).embedding).all()


def test_every_kind_has_a_window_of_its_own():
    edges = [edge for trouble in ALL_KINDS for edge in (trouble.start, trouble.end)]
    assert edges == sorted(edges) and edges[0] > 0 and edges[-1] < 1
    assert Timetable(ALL_KINDS, lambda: 0).kind_at(0.47) == "camera_stopped"
    assert Timetable(ALL_KINDS, lambda: 0).kind_at(0.9) == "none"
    assert Timetable(ALL_KINDS, lambda: 0).kind_at(1.0) == "camera_ended"
