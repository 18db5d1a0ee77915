# SPDX-License-Identifier: Apache-2.0
"""The study of remembered frames: its traces, its counts by hand, and what must hold of any of its rows."""

from __future__ import annotations

import json

import pytest

from vla_edge_ros.bench.studies.remembering import (
    HEAVY,
    PARALLEL,
    PREFILL,
    SCENARIOS,
    Cycle,
    chunk_of,
    cycles_of,
    main,
    replay,
)
from vla_edge_ros.config import AdmissionConfig, TimingConfig
from vla_edge_ros.runtime.admission import make_admission

TIMING = TimingConfig()
COUNT = 400


def tally(cycles, prefill=0.2, remembers=True, policy="robust"):
    return replay(cycles, prefill, TIMING, make_admission(TIMING, AdmissionConfig(policy=policy)), remembers)


@pytest.mark.parametrize("prefill", PREFILL)
def test_a_chunk_takes_24_ms_however_it_is_divided(prefill):
    chunk = chunk_of(prefill)
    assert chunk.total_ms == pytest.approx(24.0) and chunk.prefill_ms == pytest.approx(24.0 * prefill)
    assert len(chunk.decode_ms) == (0 if prefill == PARALLEL else 7)


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("heavy", HEAVY)
def test_the_share_of_heavy_cycles_is_the_one_that_is_asked_for(scenario, heavy):
    cycles = list(cycles_of(scenario, heavy, 0.2, 20_000))
    found = sum(c.elapsed_ms > 1 or c.chunk.total_ms > 30 for c in cycles) / len(cycles)
    assert found == pytest.approx(heavy, abs=0.03)


def test_counts_are_those_of_a_trace_made_by_hand():
    """Calm; begun with 15 ms left, so only the prefill fits; begun with 3 ms left, so nothing does; calm."""
    cycles = [Cycle(elapsed_ms, chunk_of(0.2)) for elapsed_ms in (0.3, 18.0, 30.0, 0.3)]
    with_it, without = tally(cycles), tally(cycles, remembers=False)
    assert (with_it.acted, with_it.refused, with_it.kept, with_it.overruns) == (2, 2, 3, 0)
    assert (without.acted, without.refused, without.kept) == (2, 2, 2)


def test_a_prefill_that_stalls_behind_an_answer_is_counted_as_an_overrun_and_delays_the_next_cycle():
    stalled = chunk_of(0.2, 20.0)
    cycles = [Cycle(18.0, stalled), Cycle(0.3, chunk_of(0.2))]
    result = tally(cycles)
    assert (result.overruns, result.refused) == (1, 2)


@pytest.mark.parametrize("policy", ["robust", "ema"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_with_parallel_decoding_nothing_changes_and_else_more_is_kept_and_nothing_is_late(scenario, policy):
    for prefill in PREFILL:
        cycles = list(cycles_of(scenario, 0.5, prefill, COUNT))
        with_it, without = (tally(cycles, prefill, on, policy) for on in (True, False))
        if prefill == PARALLEL:
            assert with_it == without
            continue
        assert with_it.kept > without.kept + 0.2 * COUNT
        assert with_it.late == with_it.overruns == 0
        assert with_it.cycles == with_it.refused + with_it.aborted + with_it.acted


def test_one_command_prints_the_rows_and_writes_them(tmp_path, capsys):
    path = tmp_path / "remembering.json"
    assert main(["--cycles", "30", "--json", str(path)]) == 0
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert len(rows) == len(SCENARIOS) * len(HEAVY) * len(PREFILL) * 2
    assert all(row["kept_percent"] >= row["acted_percent"] for row in rows)
    assert "late start" in capsys.readouterr().out
