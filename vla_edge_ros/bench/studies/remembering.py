# SPDX-License-Identifier: Apache-2.0
"""Share of frames that reach the memory where a fifth, half or four fifths of the cycles have no time to act.

    python -m vla_edge_ros.bench.studies.remembering [--cycles 10000] [--json FILE]

Each scenario runs twice through the admission policies, in the control loop's order of calls: with
``admission.remember`` and without. Only the engine's time is replayed. A chunk takes 24 ms. In a heavy cycle
of ``slow machine`` it takes 1.4 to 2.5 times as long, and cannot end in time; in one of ``late start`` its
thread begins 8 to 24 ms into the cycle. Heavy cycles come in stretches. ``prefill`` is the prefill's part of
a chunk: 0.2 as in the admission study, 0.5 where a frame has many tokens, 0.99 with parallel decoding.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from vla_edge_ros.bench.report import command, print_table, write_json
from vla_edge_ros.bench.studies.admission_sim import DEFAULT_CYCLES, run_chunk
from vla_edge_ros.bench.studies.cost_traces import FULL_SLOTS, STEPS, VISION
from vla_edge_ros.config import AdmissionConfig, TimingConfig
from vla_edge_ros.console import console_program
from vla_edge_ros.runtime.admission import Admission, make_admission
from vla_edge_ros.types import ChunkTimes

CHUNK_MS = 24.0
HEAVY = (0.2, 0.5, 0.8)  # shares of all cycles
PARALLEL = 0.99  # all of a chunk but its embedding
PREFILL = (0.2, 0.5, PARALLEL)
SCENARIOS = ("slow machine", "late start")
STRETCH = 10  # heavy cycles in a row, in the mean
ON_TIME_MS = 0.3  # grid point to admission
ANSWER_MS = 0.2  # from a refusal to what is done behind its answer: the publish


@dataclass(frozen=True, slots=True)
class Cycle:
    """When admission is asked, and what the chunk would take if it ran to its end."""

    elapsed_ms: float
    chunk: ChunkTimes


@dataclass(slots=True)
class Tally:
    """Counts of one replay. ``kept``: frames in the memory, with an action or without; ``overruns``: frames
    remembered behind an answer that ended after the period."""

    cycles: int = 0
    refused: int = 0
    aborted: int = 0
    late: int = 0
    acted: int = 0
    kept: int = 0
    overruns: int = 0

    def percent(self, count: int) -> float:
        return round(100.0 * count / self.cycles, 2)


def chunk_of(prefill: float, factor: float = 1.0) -> ChunkTimes:
    """``factor`` times ``CHUNK_MS``, with a full cache; no decode steps where ``prefill`` is ``PARALLEL``."""
    step_ms = (1.0 - VISION - prefill) * CHUNK_MS * factor / STEPS
    steps = () if prefill == PARALLEL else (step_ms,) * STEPS
    vision_ms, prefill_ms = VISION * CHUNK_MS * factor, prefill * CHUNK_MS * factor
    return ChunkTimes(FULL_SLOTS, vision_ms, prefill_ms, steps, completed=True)


def cycles_of(scenario: str, heavy: float, prefill: float, count: int, seed: int = 0) -> Iterator[Cycle]:
    """A share of ``heavy`` is heavy, in stretches that end with probability 1 / ``STRETCH``."""
    rng = np.random.default_rng([seed, SCENARIOS.index(scenario), round(100 * heavy)])
    begins, busy = heavy / (STRETCH * (1.0 - heavy)), False
    for _ in range(count):
        busy = rng.random() < (1.0 - 1.0 / STRETCH if busy else begins)
        jitter, load, late_ms = rng.normal(0.0, 0.01), rng.uniform(1.4, 2.5), rng.uniform(8.0, 24.0)
        slow, late = (busy and scenario == name for name in SCENARIOS)
        factor = float(np.exp(jitter) * (load if slow else 1.0))
        yield Cycle(float(late_ms) if late else ON_TIME_MS, chunk_of(prefill, factor))


def replay(
    cycles: Iterable[Cycle], prefill: float, timing: TimingConfig, admission: Admission, remembers: bool
) -> Tally:
    """In the control loop's order. What overruns the period delays the cycle behind it."""
    admission.calibrate([chunk_of(prefill)] * 8)
    remembers = remembers and prefill != PARALLEL  # as the control loop has it
    tally, overrun_ms = Tally(), 0.0
    for cycle in cycles:
        tally.cycles += 1
        elapsed_ms = max(cycle.elapsed_ms, ON_TIME_MS + overrun_ms)
        if admission.decide(elapsed_ms, FULL_SLOTS).admitted:
            times = run_chunk(cycle.chunk, elapsed_ms, admission)
            admission.learn(times)
            end_ms = elapsed_ms + times.total_ms
            is_late = times.completed and end_ms > timing.deadline_ms - timing.publish_lead_ms
            tally.late += is_late
            tally.acted += times.completed and not is_late
            tally.aborted += not times.completed
            tally.kept += times.completed or (remembers and times.prefill_ms > 0)
        else:
            tally.refused += 1
            end_ms = start_ms = elapsed_ms + ANSWER_MS
            if remembers and admission.may_remember(start_ms, FULL_SLOTS):
                times = _run_frame(cycle.chunk, start_ms, admission)
                admission.learn_remembered(times)
                end_ms += times.total_ms
                tally.kept += times.prefill_ms > 0
                tally.overruns += end_ms > timing.period_ms
        overrun_ms = max(0.0, end_ms - timing.period_ms)
    return tally


def _run_frame(chunk: ChunkTimes, start_ms: float, admission: Admission) -> ChunkTimes:
    """Embedding and prefill of ``chunk``, or what ran of them before it was given up."""
    frame = ChunkTimes(chunk.slots_in_use, chunk.vision_ms, chunk.prefill_ms)
    ran = run_chunk(frame, start_ms, admission)
    return ChunkTimes(ran.slots_in_use, ran.vision_ms, ran.prefill_ms)


def simulate(count: int, timing: TimingConfig) -> list[dict[str, object]]:
    """One row a scenario, share of heavy cycles, share of the prefill, and policy."""
    rows: list[dict[str, object]] = []
    for scenario in SCENARIOS:
        for heavy in HEAVY:
            for prefill in PREFILL:
                cycles = list(cycles_of(scenario, heavy, prefill, count))
                for policy in ("robust", "ema"):
                    config = AdmissionConfig(policy=policy)
                    without, with_it = (
                        replay(cycles, prefill, timing, make_admission(timing, config), remembers)
                        for remembers in (False, True)
                    )
                    rows.append(_row(scenario, heavy, prefill, policy, without, with_it))
    return rows


def _row(
    scenario: str, heavy: float, prefill: float, policy: str, without: Tally, with_it: Tally
) -> dict[str, object]:
    return {
        "scenario": scenario,
        "heavy_percent": round(100 * heavy),
        "prefill_share": prefill,
        "policy": policy,
        "refused_percent": with_it.percent(with_it.refused),
        "aborted_percent": with_it.percent(with_it.aborted),
        "kept_before_percent": without.percent(without.kept),
        "kept_percent": with_it.percent(with_it.kept),
        "acted_before_percent": without.percent(without.acted),
        "acted_percent": with_it.percent(with_it.acted),
        "late_before": without.late,
        "late": with_it.late,
        "overruns": with_it.overruns,
    }


@console_program
def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="remembering", description=__doc__.partition("\n")[0])
    parser.add_argument("--cycles", type=int, default=DEFAULT_CYCLES, help="cycles of each scenario")
    parser.add_argument("--json", help="write the rows here, e.g. docs/benchmarks/remembering.json")
    options = parser.parse_args(arguments)
    rows = simulate(options.cycles, TimingConfig())
    print_table(rows)
    if options.json:
        write_json(options.json, command("studies.remembering", arguments), rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
