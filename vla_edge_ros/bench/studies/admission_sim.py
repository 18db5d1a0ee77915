# SPDX-License-Identifier: Apache-2.0
"""Replay cost traces through the admission policies: what is admitted, late, aborted, and used of what fits.

    python -m vla_edge_ros.bench.studies.admission_sim [--trace run/cycles.csv] [--cycles 10000] [--json FILE]

Drives the very objects of the control loop, in its order of calls; only the engine's time is replayed.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace
from typing import Any

from vla_edge_ros.bench.report import command, print_table, write_json
from vla_edge_ros.bench.studies.cost_traces import Trace, recorded_trace, synthetic_traces
from vla_edge_ros.config import AdmissionConfig, TimingConfig
from vla_edge_ros.console import console_program
from vla_edge_ros.errors import VlaEdgeError
from vla_edge_ros.runtime.admission import Admission, make_admission
from vla_edge_ros.types import ChunkTimes

NO_PROBE = AdmissionConfig(policy="ema", probe_after=10**9, probe_every_max=10**9)
DEFAULT_CYCLES = 10_000


@dataclass(frozen=True, slots=True)
class Contender:
    """A policy, with or without the control loop's questions between two stages."""

    name: str
    config: AdmissionConfig
    rechecks: bool


CONTENDERS = (
    Contender("ema without probe", NO_PROBE, False),
    Contender("ema", AdmissionConfig(policy="ema"), False),
    Contender("ema + re-check", AdmissionConfig(policy="ema"), True),
    Contender("robust q50", AdmissionConfig(), False),
    Contender("robust q90", AdmissionConfig(cost_quantile=0.9), False),
    Contender("robust q90 + re-check", AdmissionConfig(cost_quantile=0.9), True),
    Contender("robust q50 + re-check", AdmissionConfig(), True),
)


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of one replay; ``late``: ended after the watchdog's answer; ``longest_refusal``: in a row."""

    cycles: int
    admitted: int
    late: int
    aborted: int
    acted: int
    feasible: int
    longest_refusal: int

    def row(self, trace: str, policy: str) -> dict[str, object]:
        percent = 100.0 / self.cycles
        return {
            "trace": trace,
            "policy": policy,
            "admitted_percent": round(self.admitted * percent, 2),
            "late_percent": round(self.late * percent, 2),
            "aborted_percent": round(self.aborted * percent, 2),
            "useful_of_feasible_percent": round(100.0 * self.acted / max(1, self.feasible), 2),
            "longest_refusal_cycles": self.longest_refusal,
        }


def replay(trace: Trace, timing: TimingConfig, admission: Admission, rechecks: bool) -> Tally:
    """Run a trace through one policy. A chunk is feasible where, run to its end, it would not be late."""
    late_ms = timing.deadline_ms - timing.publish_lead_ms
    admission.calibrate(trace.warm_up)
    admitted = late = aborted = acted = feasible = refusals = longest = 0
    for chunk in trace.chunks:
        feasible += trace.elapsed_ms + chunk.total_ms <= late_ms
        if not admission.decide(trace.elapsed_ms, chunk.slots_in_use).admitted:
            refusals += 1
            longest = max(longest, refusals)
            continue
        admitted, refusals = admitted + 1, 0
        times = run_chunk(chunk, trace.elapsed_ms, admission) if rechecks else chunk
        admission.learn(times)
        if not times.completed:
            aborted += 1
        elif trace.elapsed_ms + times.total_ms > late_ms:
            late += 1
        else:
            acted += 1
    return Tally(len(trace.chunks), admitted, late, aborted, acted, feasible, longest)


def run_chunk(chunk: ChunkTimes, start_ms: float, admission: Admission) -> ChunkTimes:
    """Run stage by stage; the part of ``chunk`` that ran before the policy aborted it."""
    so_far = ChunkTimes(chunk.slots_in_use)
    stages: list[dict[str, Any]] = [{"vision_ms": chunk.vision_ms}, {"prefill_ms": chunk.prefill_ms}]
    stages += [{"decode_ms": chunk.decode_ms[:count]} for count in range(1, len(chunk.decode_ms) + 1)]
    for stage in stages:
        if admission.must_abort(start_ms + so_far.total_ms, so_far):
            return so_far
        so_far = replace(so_far, **stage)
    return replace(so_far, completed=True)


def simulate(traces: list[Trace], timing: TimingConfig) -> list[dict[str, object]]:
    """One row a trace and contender."""
    return [
        replay(trace, timing, make_admission(timing, contender.config), contender.rechecks).row(
            trace.name, contender.name
        )
        for trace in traces
        for contender in CONTENDERS
    ]


@console_program
def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="admission_sim", description=__doc__.partition("\n")[0])
    parser.add_argument("--trace", action="append", default=[], help="recorded stage times, .csv or .json")
    parser.add_argument("--only-recorded", action="store_true", help="leave the synthetic scenarios out")
    parser.add_argument("--cycles", type=int, default=DEFAULT_CYCLES, help="cycles of a synthetic scenario")
    parser.add_argument("--deadline-ms", type=float, default=TimingConfig().deadline_ms)
    parser.add_argument("--json", help="write the rows here, e.g. docs/benchmarks/admission.json")
    options = parser.parse_args(arguments)
    try:
        timing = TimingConfig(deadline_ms=options.deadline_ms, period_ms=max(33.0, options.deadline_ms))
        traces = [] if options.only_recorded else synthetic_traces(options.cycles)
        traces += [recorded_trace(path) for path in options.trace]
    except VlaEdgeError as error:
        print(f"admission_sim: {error}", file=sys.stderr)
        return 2
    rows = simulate(traces, timing)
    print_table(rows)
    if options.json:
        write_json(options.json, command("studies.admission_sim", arguments), rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
