# SPDX-License-Identifier: Apache-2.0
"""The program as users run it: a whole run without ROS, one with ROS that is interrupted, and mistakes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from vla_edge_ros.bench.run.main import main
from vla_edge_ros.recording.cycle_table import read_table

REPOSITORY = Path(__file__).resolve().parents[3]
SLOW = ["--period-ms", "100", "--engine", "numpy"]  # calm on a busy machine


def program(*typed: str, out: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "vla_edge_ros.bench.run.main", *typed, "--out", str(out)],
        cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def test_a_whole_run_without_ros(tmp_path, capsys):
    typed = ["--policies", "fifo", "--duration", "1", "--warmup", "0.3", "--no-ros", *SLOW]
    assert main([*typed, "--out", str(tmp_path)]) == 0
    (folder,) = tmp_path.glob("benchmark_*")
    assert f"report   {folder / 'report.html'}" in capsys.readouterr().out
    run = json.loads((folder / "run.json").read_text())
    assert run["complete"] and run["trials"][0]["status"] == "complete"
    assert run["command"].startswith("run_benchmarks --policies fifo")
    document = json.loads((folder / "report.json").read_text())
    (table,) = folder.glob("trials/fifo-1/recording/*/cycles.csv")
    outcomes = document["measures"]["fifo"]["outcomes"]
    assert sum(outcomes.values()) == 10 <= len(read_table(table))
    assert document["measures"]["fifo"]["memory"]["reasoner"]["peak_mb"] > 30
    assert document["measures"]["fifo"]["retention"]["looks"] > 0
    assert not document["sections"][0]["answers"][0].startswith("Incomplete")


@pytest.mark.ros
def test_ctrl_c_keeps_what_was_measured_and_marks_the_report(tmp_path, wait_until):
    pytest.importorskip("rclpy")
    process = program("--policies", "fifo", "novelty", "--warmup", "0.2", *SLOW, out=tmp_path)
    state = {"elapsed_s": 0.0}

    def has_measured() -> bool:
        for path in tmp_path.glob("*/trials/fifo-1/state.json"):
            state.update(json.loads(path.read_text()))
        assert process.poll() is None, process.stdout.read()
        return state["elapsed_s"] > 1.0

    wait_until(has_measured)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=90)
    assert process.returncode == 130, said
    assert "interrupted during fifo-1; what was measured is kept" in said and "Traceback" not in said
    (folder,) = tmp_path.glob("benchmark_*")
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert "Incomplete: of 2 trials 2 did not run to their end" in text
    assert "fifo-1 (incomplete), novelty-1 (not started)" in text
    (bag,) = folder.glob("trials/fifo-1/recording/*/topics/*.mcap")
    assert bag.read_bytes().endswith(b"\x89MCAP0\r\n")  # closed in order
    assert json.loads((folder / "report.json").read_text())["complete"] is False


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (["--policies", "lru"], "error: --policies must be among fifo, "),
        (["--source", "nowhere.mp4"], "error: source nowhere.mp4 does not exist"),
        (["--compare", "nowhere", "here"], "error: expected a run folder of run_benchmarks, got nowhere"),
        (["--report", "."], "error: . must be a run folder of run_benchmarks, got"),
    ],
)
def test_a_mistake_is_one_line(typed, says, capsys, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    assert main(typed if typed[0] == "--report" else [*typed, "--engine", "numpy"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(says) and error.count("\n") == 1


def test_an_engine_that_does_not_work_here_is_quoted_and_leaves_no_report(tmp_path, capsys):
    typed = [
        "--policies",
        "fifo",
        "--duration",
        "1",
        "--no-ros",
        "--engine",
        "numpy",
        "--source",
        "synthetic",
    ]
    model = tmp_path / "no_model"
    model.mkdir()
    assert main([*typed, "-p", f"model.path:={model}", "--out", str(tmp_path / "runs")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ") and "config.json" in error and error.count("\n") == 1


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["--no-ros", *SLOW, "--out", str(tmp_path / "file")]) == 1
    assert "error: --out must be a folder that can be written to" in capsys.readouterr().err
