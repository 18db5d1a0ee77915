# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import argparse

import pytest

pytestmark = pytest.mark.ros


def test_gaps_are_taken_within_the_measured_stretch_only():
    from vla_edge_ros.bench.hops.camera import gap_row

    times_ns = [0, 100_000_000, 110_000_000, 130_000_000, 140_000_000, 900_000_000]
    row = gap_row("x", times_ns, 50_000_000, 200_000_000, period_ms=10.0)
    assert (row["images"], row["gap_ms_median"], row["gap_ms_max"]) == (4, 10.0, 20.0)
    assert (row["off_ms_median"], row["off_ms_max"]) == (0.0, 10.0)
    assert row["rate_hz"] == pytest.approx(75.0)


def test_both_cameras_are_measured_in_one_run(ros_context, monkeypatch):
    from vla_edge_ros.bench.hops import camera

    monkeypatch.setattr(camera, "SETTLE_S", 0.3)
    options = argparse.Namespace(seconds=0.5, rate=60.0, source="synthetic", config="", reasoner=False)
    rows = camera.measure_jitter(options)
    assert [row["camera"] for row in rows] == ["replay node", "plain rclpy timer"]
    assert all(row["images"] > 5 for row in rows)


def test_every_way_of_publishing_is_timed(ros_context):
    from rclpy.node import Node

    from vla_edge_ros.bench.hops.camera import measure_cost

    node = Node("cost")
    try:
        rows = measure_cost(node, 32, 16, calls=4)
    finally:
        node.destroy_node()
    assert [row["calls"] for row in rows] == [4, 4, 3]
    assert all(row["size"] == "32x16" and row["publish_ms_median"] > 0 for row in rows)
