# SPDX-License-Identifier: Apache-2.0
"""A node with ``recording.path`` leaves a run that the readers read: rows, a bag, a summary."""

from __future__ import annotations

import json
import sys

import pytest

pytestmark = pytest.mark.ros


def test_a_run_is_recorded_from_the_first_cycle_to_the_zero_motion(graph, tmp_path):
    from rosbags.rosbag2 import Reader

    from vla_edge_ros.recording.cycle_table import read_table
    from vla_edge_ros.recording.summary import main as summarise
    from vla_edge_ros.types import ActionSource, Outcome

    node = graph.reasoner(recording__path=str(tmp_path))
    graph.camera()
    graph.wait_until(lambda: node.metrics.sources.get(ActionSource.FRESH, 0) >= 5, "five actions")
    cycles = node.metrics.cycles
    graph.call(lambda: node.stop() or True)
    (folder,) = tmp_path.iterdir()
    records = read_table(folder / "cycles.csv")
    assert len(records) >= cycles
    assert records[-1].outcome is Outcome.STOPPED and records[-1].source is ActionSource.ZERO
    fresh = [record for record in records if record.source is ActionSource.FRESH]
    assert all(r.frame_stamp_ns and r.decision.predicted_ms and r.times.completed and r.tokens for r in fresh)
    document = json.loads((folder / "run.json").read_text())
    assert document["device_parts_bytes"]["kv_cache"] > 0 and document["dropped_records"] == 0
    with Reader(folder / "topics") as bag:
        counts = {topic.rpartition("/")[2]: info.msgcount for topic, info in bag.topics.items()}
    assert counts["action"] == sum(record.action is not None for record in records)
    assert counts["status"] == len(records)
    assert counts["diagnostics"] >= 1
    summarise([str(folder)])


def test_no_path_records_nothing(graph, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    graph.reasoner()
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_cannot_be_written_fails_the_configure_and_names_it(graph, tmp_path):
    occupied = tmp_path / "a_file"
    occupied.write_text("not a folder")
    node = graph.reasoner(recording__path=str(occupied / "runs"), start=False)
    graph.call(lambda: node.start() or True)
    assert not node.is_active


def test_topics_without_the_bag_library_fail_with_what_to_do(graph, tmp_path, monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, "rosbags.rosbag2", None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, "vla_edge_ros.recording.mcap_writer", raising=False)
    node = graph.reasoner(recording__path=str(tmp_path), start=False)
    graph.call(lambda: node.start() or True)
    assert not node.is_active
    assert "recording.topics expected the package rosbags" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == [], "nothing was begun"
