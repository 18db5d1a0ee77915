# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

from vla_edge_ros.bench.hops import slot


def test_calls_are_timed_one_by_one_and_preparation_is_not():
    order = []
    times = slot.call_times_ns(lambda: order.append("call"), 3, before=lambda: order.append("before"))
    assert order == ["before", "call"] * 3
    assert len(times) == 3 and min(times) > 0


def test_command_prints_and_writes_every_operation_with_its_size(tmp_path, capsys):
    path = tmp_path / "slot.json"
    assert slot.main(["--width", "32", "--height", "16", "--calls", "20", "--json", str(path)]) == 0
    document = json.loads(path.read_text())
    assert document["command"].startswith("python -m vla_edge_ros.bench.hops.slot --width 32")
    operations = {row["operation"] for row in document["rows"]}
    assert {"write", "latest, new frame", "latest, same frame"} <= operations
    for row in document["rows"]:
        assert (row["width"], row["height"], row["calls"]) == (32, 16, 20)
        assert 0 <= row["median_ns"] <= row["p99_ns"] <= row["max_ns"]
    printed = capsys.readouterr().out
    assert document["command"] in printed and document["machine"]["cpu"] in printed
    assert all(operation in printed for operation in operations)
