# SPDX-License-Identifier: Apache-2.0
"""The closed-loop study: its rows, how it counts, and that it plays nothing twice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from vla_edge_ros.bench.studies.closed_loop import row_of
from vla_edge_ros.bench.studies.closed_loop_rows import (
    SETS,
    Case,
    cases,
    config_of,
    instruction_for,
    play_case,
)
from vla_edge_ros.tabletop.lockstep import Result
from vla_edge_ros.tabletop.tasks import draw

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("slots", [1024, 4096])
@pytest.mark.parametrize("name", SETS)
def test_every_row_is_a_configuration_that_works(name, slots):
    rows = cases(name, slots)
    assert rows and len(set(rows)) == len(rows)
    for case in rows:
        assert config_of(case, "", "numpy").cache.capacity_slots == slots
        assert draw(case.task, 0, case.delay).go >= case.delay


def test_shares_and_their_intervals():
    done = Result(True, True, 40, True, True, 3, 10, (1.0, 2.0))
    failed = Result(False, True, 110, True, False, 1, 10, (3.0,))
    row = row_of(Case(task="recall"), [done, done, done, failed])
    assert (row["episodes"], row["success"], row["nearest"], row["cue_kept_at_end"]) == (4, 0.75, 1.0, 0.75)
    assert row["success_low"] < 0.75 < row["success_high"]
    assert row["cycles_to_touch_median"] == 40 and row["action_repeated"] == 0.25
    assert row["chunk_ms_median"] == 2.0


def test_a_wrong_instruction_names_another_button_that_is_there():
    plan = draw("point", 3)
    given = instruction_for(Case(task="point", trouble="wrong_instruction"), plan)
    assert given != plan.instruction and given.split()[3] in plan.colours


def test_the_expert_needs_no_model():
    pytest.importorskip("mujoco", reason="the study plays with physics")
    case = Case(task="point", model="expert")
    assert play_case(case, 0, config_of(case, "", "numpy"), None).succeeded


def test_rows_that_are_there_are_not_played_again(tmp_path):
    pytest.importorskip("mujoco", reason="the study plays with physics")
    model = ROOT / "vla_edge_ros" / "models" / "tabletop-1024"
    if not model.is_dir():
        pytest.skip("no trained weights in this checkout")
    file = tmp_path / "closed-loop.json"
    command = [sys.executable, "-m", "vla_edge_ros.bench.studies.closed_loop", "--sets", "inside"]
    command += ["--episodes", "1", "--workers", "1", "--json", str(file)]
    for _ in range(2):
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
        assert ran.returncode == 0, ran.stderr
        rows = json.loads(file.read_text())["rows"]
        assert [(row["policy"], row["episodes"]) for row in rows] == [("fifo", 1)]
    assert "min left" not in ran.stdout, "the second run had nothing to play"
