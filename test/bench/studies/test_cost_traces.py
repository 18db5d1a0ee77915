# SPDX-License-Identifier: Apache-2.0
"""The simulator's traces: what each scenario claims to be, and recorded ones read back."""

from __future__ import annotations

import json

import numpy as np
import pytest

from vla_edge_ros.bench.studies.cost_traces import FULL_SLOTS, STEPS, chunk, recorded_trace, synthetic_traces
from vla_edge_ros.errors import SourceError


def totals(name: str, cycles: int = 2000) -> np.ndarray:
    (trace,) = (trace for trace in synthetic_traces(cycles) if trace.name == name)
    return np.array([times.total_ms for times in trace.chunks])


def test_chunk_has_the_total_that_was_asked_for():
    times = chunk(24.0)
    assert times.total_ms == pytest.approx(24.0)
    assert len(times.decode_ms) == STEPS
    assert chunk(24.0, 0, attention=0.25).total_ms == pytest.approx(18.0)


def test_traces_are_the_same_on_every_run():
    assert synthetic_traces(200) == synthetic_traces(200)
    assert synthetic_traces(200, seed=1) != synthetic_traces(200)


def test_scenarios_are_what_they_are_called():
    assert np.median(totals("steady")) == pytest.approx(24.0, rel=0.01)
    assert 0.0005 < np.mean(totals("steady") > 40) < 0.01
    assert totals("cold_start")[0] == pytest.approx(900.0, rel=0.1)
    assert np.mean(totals("throttling") > 33) == pytest.approx(0.2, abs=0.01)
    assert np.median(totals("tight")) == pytest.approx(29.3, rel=0.01)
    assert 0.03 < np.mean(totals("outliers") > 31) < 0.07
    assert np.median(totals("step_change")[1000:]) == pytest.approx(27.0, rel=0.01)
    assert totals("growing_cache")[:100].max() < 33 < totals("growing_cache").max()


def test_warm_up_covers_an_empty_a_half_full_and_a_full_cache():
    for trace in synthetic_traces(20):
        assert {times.slots_in_use for times in trace.warm_up} == {32, FULL_SLOTS // 2, FULL_SLOTS}


def test_recorded_json_is_replayed_as_it_was_measured(tmp_path):
    path = tmp_path / "h200.json"
    rows = [
        {"slots_in_use": 32 * i, "vision_ms": 0.1, "prefill_ms": 1.0 + i, "decode_ms": [0.5] * 7}
        for i in range(20)
    ]
    path.write_text(json.dumps(rows), encoding="utf-8")
    trace = recorded_trace(path)
    assert trace.name == "recorded:h200"
    assert len(trace.warm_up) == 4
    assert [times.prefill_ms for times in trace.chunks] == [1.0 + i for i in range(4, 20)]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"slots_in_use": 3}]', "[]"])
def test_file_that_is_no_trace_is_refused_with_its_name(tmp_path, text):
    path = tmp_path / "broken.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SourceError, match="broken.json"):
        recorded_trace(path)


@pytest.mark.parametrize("name", ["gone.json", "gone.csv"])
def test_missing_file_is_refused_with_its_name(tmp_path, name):
    with pytest.raises(SourceError, match="gone"):
        recorded_trace(tmp_path / name)
