# SPDX-License-Identifier: Apache-2.0
"""The simulator, and through it the policies over long streams: no lock, no late chunk that could be seen."""

from __future__ import annotations

import json

import pytest

from vla_edge_ros.bench.studies.admission_sim import CONTENDERS, main, replay
from vla_edge_ros.bench.studies.cost_traces import Trace, chunk, synthetic_traces
from vla_edge_ros.config import AdmissionConfig, TimingConfig
from vla_edge_ros.runtime.admission import make_admission
from vla_edge_ros.types import Decision, Reason

TIMING = TimingConfig()
CYCLES = 1000
TRACES = {trace.name: trace for trace in synthetic_traces(CYCLES)}
BY_NAME = {contender.name: contender for contender in CONTENDERS}


def tally(trace: str, policy: str):
    contender = BY_NAME[policy]
    return replay(TRACES[trace], TIMING, make_admission(TIMING, contender.config), contender.rechecks)


@pytest.mark.parametrize("trace", sorted(TRACES))
@pytest.mark.parametrize("policy", sorted(set(BY_NAME) - {"ema without probe"}))
def test_no_policy_refuses_longer_than_the_longest_probe_gap(trace, policy):
    """Fault A12."""
    assert tally(trace, policy).longest_refusal <= AdmissionConfig().probe_every_max


@pytest.mark.parametrize("trace", sorted(set(TRACES) - {"stall_in_last_step"}))
@pytest.mark.parametrize("policy", ["ema + re-check", "robust q90 + re-check", "robust q50 + re-check"])
def test_nothing_is_late_with_re_checks_where_the_stall_shows_before_the_last_step(trace, policy):
    assert tally(trace, policy).late == 0


def test_seed_rule_locks_after_one_cold_chunk():
    """The negative control: without probes the simulator does find the lock."""
    result = tally("cold_start", "ema without probe")
    assert (result.admitted, result.longest_refusal) == (1, CYCLES - 1)


def test_stall_in_the_last_step_is_late_under_every_policy():
    """Nobody sees it coming: this is what the watchdog is for."""
    assert tally("stall_in_last_step", "robust q50 + re-check").late > 0


@pytest.mark.parametrize(
    ("trace", "percent"), [("steady", 100.0), ("cold_start", 100.0), ("throttling", 79.6), ("tight", 92.8)]
)
def test_default_policy_admits_at_least_what_was_aimed_at(trace, percent):
    """At most two points below the share that an independent simulation of the same rule gave."""
    cycles = 3000  # shorter, and the probes' gaps after each slow stretch weigh more
    (long_trace,) = (one for one in synthetic_traces(cycles) if one.name == trace)
    result = replay(long_trace, TIMING, make_admission(TIMING, AdmissionConfig()), rechecks=True)
    assert 100.0 * result.admitted / cycles >= percent - 2.0


class Scripted:
    """Admits every other cycle and cuts as told; counts what it is asked."""

    def __init__(self, cut_before_stage: int):
        self.cut_before_stage = cut_before_stage
        self.cycle = 0
        self.learned = []

    def calibrate(self, samples):
        self.calibrated = len(samples)

    def decide(self, elapsed_ms, slots_in_use):
        self.cycle += 1
        self.asked = 0
        admitted = self.cycle % 2 == 1
        return Decision(
            admitted, Reason.WITHIN_BUDGET if admitted else Reason.OVER_BUDGET, elapsed_ms, 0.0, 31.0
        )

    def must_abort(self, elapsed_ms, so_far):
        assert elapsed_ms == pytest.approx(0.3 + so_far.total_ms)
        self.asked += 1
        return self.asked == self.cut_before_stage

    def learn(self, times):
        self.learned.append(times)


def test_counts_are_those_of_a_scripted_policy():
    trace = Trace("scripted", (chunk(24.0), chunk(24.0), chunk(40.0), chunk(24.0)), (chunk(24.0),) * 3)
    result = replay(trace, TIMING, script := Scripted(cut_before_stage=0), rechecks=True)
    assert (result.admitted, result.late, result.aborted, result.acted, result.feasible) == (2, 1, 0, 1, 3)
    assert script.calibrated == 3
    assert script.asked == 0 and [times.completed for times in script.learned] == [True, True]


@pytest.mark.parametrize(("cut", "ran"), [(1, 0), (2, 1), (3, 2), (9, 8)])
def test_cut_chunk_holds_only_the_stages_that_ran(cut, ran):
    script = Scripted(cut_before_stage=cut)
    result = replay(Trace("scripted", (chunk(24.0),), ()), TIMING, script, rechecks=True)
    assert (result.aborted, result.acted) == (1, 0)
    (times,) = script.learned
    assert (times.vision_ms > 0) + (times.prefill_ms > 0) + len(times.decode_ms) == ran
    assert not times.completed


def test_one_command_prints_the_table_and_writes_json(tmp_path, capsys):
    path = tmp_path / "admission.json"
    assert main(["--cycles", "40", "--json", str(path)]) == 0
    printed = capsys.readouterr().out
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert len(rows) == len(TRACES) * len(CONTENDERS)
    assert all(name in printed for name in TRACES)


def test_recorded_stage_times_are_replayed_beside_the_scenarios(tmp_path, capsys):
    path = tmp_path / "slow.json"
    times = chunk(36.0)
    row = {"slots_in_use": 4032, "vision_ms": times.vision_ms, "prefill_ms": times.prefill_ms}
    path.write_text(json.dumps([{**row, "decode_ms": list(times.decode_ms)}] * 50), encoding="utf-8")
    assert main(["--trace", str(path), "--only-recorded"]) == 0
    assert capsys.readouterr().out.count("recorded:slow") == len(CONTENDERS)


def test_missing_trace_is_one_clear_error(tmp_path, capsys):
    assert main(["--trace", str(tmp_path / "gone.json")]) == 2
    assert "gone.json" in capsys.readouterr().err
