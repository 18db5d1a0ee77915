# SPDX-License-Identifier: Apache-2.0
"""Two runs side by side: what is noise, what is not, and what was not the same."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from made_run import PERIOD_MS, acted, plan, write_run

from vla_edge_ros.bench.run.blocks import Table
from vla_edge_ros.bench.run.compare import compare
from vla_edge_ros.bench.run.intervals import Difference, Estimate
from vla_edge_ros.bench.run.main import main
from vla_edge_ros.bench.run.metrics import METRICS
from vla_edge_ros.bench.run.verdicts import (
    MACHINE,
    NOISE,
    ONCE,
    REAL,
    SAME,
    SMALL,
    Comparison,
    by_control,
    judge,
)
from vla_edge_ros.errors import SourceError

LATENCY = next(metric for metric in METRICS if metric.key == "latency_p50")
RATE = next(metric for metric in METRICS if metric.key == "miss_rate")


def run(folder: Path, mean_ms: float, seed: int, **values: object) -> Path:
    """Latencies of ``mean_ms`` with a spread of 1 ms."""
    rng = random.Random(seed)

    def records(trial):
        return [acted(cycle, rng.gauss(mean_ms, 1.0)) for cycle in range(1, 668)]

    return write_run(folder, plan(**values), records)


def estimate(value: float) -> Estimate:
    return Estimate(value, value - 1, value + 1, 100, 1)


def difference(value: float, is_clear: bool = True, counts_starts: bool = False) -> Difference:
    return Difference(value, value - 0.1, value + 0.1, is_clear, counts_starts)


@pytest.mark.parametrize(
    ("metric", "b", "found", "verdict"),
    [
        (LATENCY, 10.0, difference(0.0), SAME),
        (LATENCY, 15.0, difference(5.0, is_clear=False), NOISE),
        (LATENCY, 10.2, difference(0.2, counts_starts=True), SMALL),  # 0.33 ms is 1 % of the deadline
        (LATENCY, 10.5, difference(0.5), ONCE),
        (LATENCY, 10.5, difference(0.5, counts_starts=True), REAL),
        (RATE, 10.0005, difference(0.0005), SMALL),
        (RATE, 10.5, difference(0.5, counts_starts=True), REAL),
    ],
)
def test_every_verdict_has_its_reason(metric, b, found, verdict):
    assert judge(metric, estimate(10.0), estimate(b), found, PERIOD_MS) == verdict


def test_what_one_rule_shows_under_two_names_is_the_machine():
    def made(second: str, value: float) -> Comparison:
        return Comparison("fifo", second, "m", "ms", estimate(1.0), estimate(1.0), difference(value), ONCE)

    control = [made("sliding_window", -2.0)]
    found = by_control([made("novelty", 1.5), made("bridge", 2.5), *control], control)
    assert [each.verdict for each in found] == [MACHINE, ONCE, MACHINE]


def test_two_runs_of_the_same_machine_are_called_noise(tmp_path):
    page, document = compare(run(tmp_path / "a", 10.0, 1), run(tmp_path / "b", 10.0, 2))
    assert page.sections[0].answers[0].startswith("None of ")
    assert {each["verdict"] for found in document["comparisons"].values() for each in found} <= {SAME, NOISE}
    assert "every parameter are the same" in page.sections[1].answers[0]


def test_a_slower_run_is_named_with_its_interval_and_what_is_not_known(tmp_path):
    slow = run(tmp_path / "b", 14.0, 2, parameters={"model.preset": "tiny", "cache.capacity_slots": 2048})
    page, document = compare(run(tmp_path / "a", 10.0, 1), slow)
    said = " ".join(page.sections[0].answers)
    assert (
        "fifo: latency, median:" in said and "for A" in said and "only --repeats 3 or more can tell" in said
    )
    found = {each["metric"]: each for each in document["comparisons"]["fifo"]}["latency, median"]
    assert found["difference"]["low"] < 4.0 < found["difference"]["high"]
    assert "cache.capacity_slots" in page.sections[1].answers[0]


def test_with_repeats_a_difference_is_real_from_start_to_start(tmp_path):
    a = run(tmp_path / "a", 10.0, 1, repeats=3, policies=("fifo",))
    b = run(tmp_path / "b", 14.0, 2, repeats=3, policies=("fifo",))
    page, document = compare(a, b)
    verdicts = {each["metric"]: each["verdict"] for each in document["comparisons"]["fifo"]}
    assert verdicts["latency, median"] == REAL
    assert "more than chance, also from start to start" in " ".join(page.sections[0].answers)


def test_runs_without_a_common_policy_are_refused(tmp_path):
    a = run(tmp_path / "a", 10.0, 1, policies=("fifo",))
    b = run(tmp_path / "b", 10.0, 1, policies=("bridge",))
    with pytest.raises(SourceError, match="a policy in common, got fifo and bridge"):
        compare(a, b)


def test_the_program_writes_the_comparison(tmp_path, capsys):
    a, b = run(tmp_path / "a", 10.0, 1), run(tmp_path / "b", 14.0, 2)
    assert main(["--compare", str(a), str(b), "--out", str(tmp_path)]) == 0
    folder = tmp_path / "compare_a_b"
    assert "latency, median" in capsys.readouterr().out
    document = json.loads((folder / "comparison.json").read_text())
    raw = document["sections"][1]["tables"][0]
    assert Table(raw["caption"], raw["columns"], raw["rows"]).cells()[0][1] == "synthetic"
    assert "<table>" in (folder / "comparison.html").read_text() and (folder / "comparison.md").is_file()
