# SPDX-License-Identifier: Apache-2.0
"""The summary of runs whose figures were counted by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vla_edge_ros.config import TimingConfig, VlaConfig
from vla_edge_ros.errors import SourceError
from vla_edge_ros.recording.cycle_recorder import CycleRecorder
from vla_edge_ros.recording.summary import main, read_run, summarise, to_text
from vla_edge_ros.types import (
    Action,
    ActionSource,
    ChunkTimes,
    CycleRecord,
    Decision,
    MemoryReport,
    Outcome,
    Reason,
    Remembered,
)

ACTION = Action(np.zeros(8), 1)
REFUSAL = Decision(False, Reason.OVER_BUDGET, 0.3, 38.0, 31.0)


def fresh(cycle: int, latency_ms: float = 25.0, skipped: int = 0) -> CycleRecord:
    return CycleRecord(
        cycle, Outcome.ACTED, ActionSource.FRESH, ACTION, latency_ms=latency_ms, skipped_cycles=skipped
    )


def fallback(
    cycle: int, outcome: Outcome, source=ActionSource.REPEAT, streak: int = 1, **more
) -> CycleRecord:
    more = {"latency_ms": 5.0, **more}
    return CycleRecord(cycle, outcome, source, ACTION, repeat_streak=streak, **more)


def hand_made_run() -> list[CycleRecord]:
    """20 cycles: 12 fresh, 2 aborted, 3 late, 2 refused, 1 engine error; then the message of the stop."""
    return [
        *(fresh(cycle, latency_ms=20.0 + cycle) for cycle in range(1, 11)),
        fallback(11, Outcome.ABORTED, times=ChunkTimes(4064, 0.2, 9.0)),
        fallback(12, Outcome.ABORTED, streak=2, times=ChunkTimes(4064, 0.2, 6.0, (4.0, 4.0))),
        fresh(13),
        *(fallback(13 + i, Outcome.LATE, streak=i, latency_ms=32.0) for i in (1, 2)),
        fallback(16, Outcome.LATE, ActionSource.ZERO, streak=0),
        fresh(17, skipped=2),
        fallback(18, Outcome.REFUSED, decision=REFUSAL),
        fallback(19, Outcome.REFUSED, streak=2, decision=REFUSAL),
        fallback(20, Outcome.ENGINE_ERROR, streak=3, error="embedding is not finite"),
        CycleRecord(-1, Outcome.STOPPED, ActionSource.ZERO, ACTION),
    ]


def test_rates_are_those_counted_by_hand():
    summary = summarise(hand_made_run(), {})
    assert summary.cycles == 20
    assert summary.deadline_miss_rate == 5 / 20
    assert summary.fallback_rate == pytest.approx(8 / 20)
    assert summary.longest_repeat == 3
    assert summary.refusals == {"over_budget": 2}
    assert summary.outcomes == {"acted": 12, "aborted": 2, "late": 3, "refused": 2, "engine_error": 1}
    assert summary.sources == {"fresh": 12, "repeat": 7, "zero": 1}


def test_latency_of_fresh_actions_only_and_of_all_messages():
    summary = summarise(hand_made_run(), {})
    expected = [20.0 + cycle for cycle in range(1, 11)] + [25.0, 25.0]
    assert summary.fresh_latency_ms.p50 == np.quantile(expected, 0.5, method="higher")
    assert summary.fresh_latency_ms.p99 == np.quantile(expected, 0.99, method="higher")
    assert summary.fresh_latency_ms.max == 30.0
    assert summary.every_latency_ms.max == 32.0


def test_late_messages_are_judged_by_the_deadline_of_the_run():
    records = [fresh(1, 19.0), fresh(2, 21.0), fresh(3, 34.0)]
    assert summarise(records, {}).late_messages == 1
    assert summarise(records, {"config": {"timing": {"deadline_ms": 20.0}}}).late_messages == 2


def test_every_fallback_is_explained_by_its_cause():
    text = {cause.name: cause.text for cause in summarise(hand_made_run(), {}).causes}
    assert set(text) == {"aborted", "late", "refused/over_budget", "engine_error"}
    assert "after prefill 1" in text["aborted"] and "after decode step 2 1" in text["aborted"]
    assert "2 grid points in 1 overruns" in text["late"] and "repeat 2, zero 1" in text["late"]
    assert "38.0 ms predicted" in text["refused/over_budget"] and "budget 31.0" in text["refused/over_budget"]
    assert "embedding is not finite (1 times)" in text["engine_error"]


def test_frames_without_an_action_are_counted_whoever_tells_of_them():
    """The record of an aborted cycle tells of its own, that behind a refused one of the refused one's."""
    run = hand_made_run()
    assert summarise(run, {}).remembered_frames == 0
    refused = Remembered(18, None, 0.2, 5.0)
    run[11] = fallback(12, Outcome.ABORTED, remembered=True)
    run[18] = fallback(19, Outcome.REFUSED, decision=REFUSAL, remembered_before=refused)
    run[19] = fallback(20, Outcome.ABORTED, remembered=True, remembered_before=refused)
    summary = summarise(run, {})
    assert summary.remembered_frames == 4
    assert "remembered 4 frames without an action" in to_text(summary)


def test_episodes_are_the_stretches_between_fresh_actions():
    episodes = summarise(hand_made_run(), {}).episodes
    assert [(episode.first_cycle, episode.cycles) for episode in episodes] == [(11, 2), (14, 3), (18, 3)]
    assert "cycles 18..20: refused/over_budget 2, engine_error 1" in episodes[2].text


records = st.builds(
    CycleRecord,
    cycle=st.integers(0, 10**6),
    outcome=st.sampled_from(Outcome),
    source=st.sampled_from(ActionSource),
    decision=st.none() | st.just(REFUSAL),
    times=st.none() | st.just(ChunkTimes(1, 0.1)),
    latency_ms=st.floats(0, 100),
    skipped_cycles=st.integers(0, 3),
    error=st.text(max_size=5),
)


@given(rows=st.lists(records, min_size=1, max_size=60))
@settings(max_examples=60, deadline=None)
def test_causes_and_episodes_add_up_to_the_fallbacks_of_any_run(rows):
    cycles = [row for row in rows if row.outcome is not Outcome.STOPPED]
    if not cycles:
        with pytest.raises(SourceError):
            summarise(rows, {})
        return
    summary = summarise(rows, {})
    fallbacks = sum(row.source is not ActionSource.FRESH for row in cycles)
    assert sum(cause.cycles for cause in summary.causes) == fallbacks
    assert sum(episode.cycles for episode in summary.episodes) == fallbacks
    assert all(cause.text for cause in summary.causes)
    assert str(summary.cycles) in to_text(summary)


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.STOPPED])
def test_every_outcome_has_an_explanation_of_its_own(outcome):
    (cause,) = summarise([fallback(1, outcome, error="why")], {}).causes
    assert cause.name == outcome.value
    if outcome is not Outcome.ACTED:
        assert "no fresh action" not in cause.text


def test_command_reads_the_newest_run_below_the_recording_path(tmp_path, capsys):
    for cycles in (3, 7):
        recorder = CycleRecorder(tmp_path, VlaConfig(timing=TimingConfig(deadline_ms=22.0)))
        recorder.note_memory(MemoryReport({}, peak_bytes=5 << 20))
        for cycle in range(cycles):
            recorder.record(fresh(cycle, latency_ms=20.0 + cycle))
        recorder.close()
    assert main([str(tmp_path), "--json", str(tmp_path / "summary.json")]) == 0
    printed = capsys.readouterr().out
    assert "cycles     7: acted 7" in printed
    assert "late messages 4" in printed
    assert "device 5 MB" in printed
    assert json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))["cycles"] == 7
    assert read_run(recorder.folder) == read_run(recorder.folder / "cycles.csv") == read_run(tmp_path)


@pytest.mark.parametrize("content", [None, "", "nothing,like,it\n"])
def test_what_is_no_run_is_one_clear_error(tmp_path, capsys, content):
    path = tmp_path / "cycles.csv"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    assert main([str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert str(tmp_path) in error and "expected" in error


def test_run_without_a_cycle_is_one_clear_error(tmp_path, capsys):
    CycleRecorder(tmp_path).close()
    assert main([str(tmp_path)]) == 2
    assert "at least one recorded cycle" in capsys.readouterr().err


def test_table_without_its_run_file_is_summarised_with_the_default_deadline(tmp_path, capsys):
    recorder = CycleRecorder(tmp_path)
    recorder.record(fresh(1))
    recorder.close()
    (recorder.folder / "run.json").unlink()
    assert main([str(recorder.folder)]) == 0
    assert "not recorded" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["[]", "3", "{", "\0"])
def test_run_file_that_is_no_object_is_one_clear_error(tmp_path, capsys, text):
    recorder = CycleRecorder(tmp_path)
    recorder.record(fresh(1))
    recorder.close()
    (recorder.folder / "run.json").write_text(text, encoding="utf-8")
    assert main([str(recorder.folder)]) == 2
    assert "run.json: expected a JSON object" in capsys.readouterr().err
