# SPDX-License-Identifier: Apache-2.0
"""A run's folder on disk."""

from __future__ import annotations

import csv
import json
import subprocess
import sys

import pytest

from vla_edge_ros.config import ActionConfig, TimingConfig, VlaConfig
from vla_edge_ros.errors import ConfigError
from vla_edge_ros.recording.cycle_recorder import CYCLES_FILE, RUN_FILE, CycleRecorder, new_run_folder
from vla_edge_ros.recording.cycle_table import read_table
from vla_edge_ros.types import Action, CycleRecord, MemoryReport, Outcome


def test_records_are_on_disk_after_close(tmp_path):
    recorder = CycleRecorder(tmp_path)
    for cycle in range(1000):
        recorder.record(CycleRecord(cycle, Outcome.ACTED, latency_ms=cycle / 10))
    recorder.close()
    recorder.close()
    records = read_table(recorder.folder / CYCLES_FILE)
    assert [record.cycle for record in records] == list(range(1000))
    assert (recorder.dropped, recorder.error) == (0, "")


def test_run_file_holds_configuration_and_memory(tmp_path):
    recorder = CycleRecorder(tmp_path, VlaConfig(timing=TimingConfig(deadline_ms=20.0)))
    recorder.note_memory(
        MemoryReport({"weights": 3_000_000_000, "cache": 117_000_000}, peak_bytes=3_200_000_000)
    )
    recorder.record(CycleRecord(1, Outcome.ACTED))
    recorder.close()
    run = json.loads((recorder.folder / RUN_FILE).read_text(encoding="utf-8"))
    assert run["config"]["timing"]["deadline_ms"] == 20.0
    assert run["device_peak_bytes"] == 3_200_000_000
    assert run["device_parts_bytes"]["cache"] == 117_000_000
    assert run["host_peak_bytes"] > 1 << 20
    assert run["dropped_records"] == 0


def test_columns_follow_the_action_dimensions(tmp_path):
    action = ActionConfig(names=("left", "right"), low=(-1.0, -1.0), high=(1.0, 1.0), kinds=("rate", "rate"))
    recorder = CycleRecorder(tmp_path, VlaConfig(action=action))
    recorder.close()
    header = (recorder.folder / CYCLES_FILE).read_text(encoding="utf-8").splitlines()[0].split(",")
    assert [name for name in header if name.startswith(("decode", "token", "action_"))] == [
        "decode_1_ms", "decode_2_ms", "token_left", "token_right",
        "action_stamp_ns", "action_left", "action_right",
    ]  # fmt: skip


def test_second_run_never_writes_over_the_first(tmp_path):
    folders = {new_run_folder(tmp_path) for _ in range(3)}
    assert len(folders) == 3
    assert all(folder.parent == tmp_path for folder in folders)


def test_home_is_found_and_a_user_who_is_unknown_is_no_crash(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert new_run_folder("~/runs").parent == tmp_path / "runs"
    assert new_run_folder("~nobody-of-that-name/runs").is_dir()  # a folder's name like any other


def test_path_that_cannot_be_a_folder_is_refused_at_start(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"recording\.path"):
        CycleRecorder(tmp_path / "file")


def test_rows_survive_a_process_that_is_killed(tmp_path):
    """No close, no exit handler: what the thread has written stays readable."""
    code = (
        "import os, sys\n"
        "from vla_edge_ros.recording.cycle_recorder import CycleRecorder\n"
        "from vla_edge_ros.recording.cycle_table import read_table\n"
        "from vla_edge_ros.types import Action, CycleRecord, Outcome\n"
        "recorder = CycleRecorder(sys.argv[1])\n"
        "for cycle in range(300):\n"
        "    recorder.record(CycleRecord(cycle, Outcome.ACTED))\n"
        "while len(read_table(recorder.folder / 'cycles.csv')) < 300:\n"
        "    pass\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env={"PYTHONPATH": ":".join(filter(None, sys.path))},
        timeout=60,
    )
    assert done.returncode == -9
    (table,) = tmp_path.glob(f"run_*/{CYCLES_FILE}")
    assert len(read_table(table)) == 300
    assert json.loads((table.parent / RUN_FILE).read_text(encoding="utf-8"))["config"]


def test_a_record_that_has_no_row_costs_no_other_one(tmp_path, caplog):
    """Should the impossible come: an action without values."""
    recorder = CycleRecorder(tmp_path)
    broken = CycleRecord(2, Outcome.ACTED, action=Action(None, 5))
    for record in (CycleRecord(1, Outcome.ACTED), broken, broken, CycleRecord(3, Outcome.ACTED)):
        recorder.record(record)
    recorder.close()
    assert [record.cycle for record in read_table(recorder.folder / CYCLES_FILE)] == [1, 3]
    assert (recorder.dropped, recorder.error) == (2, "")
    assert caplog.text.count("no row for") == 1
    assert json.loads((recorder.folder / RUN_FILE).read_text(encoding="utf-8"))["dropped_records"] == 2


def test_full_disk_does_not_stop_the_loop(tmp_path, caplog, wait_until):
    recorder = CycleRecorder(tmp_path)
    recorder._file.close()
    recorder._file = open("/dev/full", "w", encoding="utf-8")  # noqa: SIM115  closed by the recorder
    recorder._csv = csv.writer(recorder._file)
    recorder.record(CycleRecord(1, Outcome.ACTED))
    wait_until(lambda: recorder.error)
    for cycle in range(100):
        recorder.record(CycleRecord(cycle, Outcome.ACTED))
    assert "No space left" in recorder.error
    assert recorder.dropped == 101
