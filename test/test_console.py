# SPDX-License-Identifier: Apache-2.0
"""Programs whose reader leaves: no traceback, whatever the program and however its output is buffered."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from vla_edge_ros.console import READER_LEFT, console_program
from vla_edge_ros.errors import ConfigError

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted((ROOT / "vla_edge_ros").rglob("*.py"))


def run_unread(*command: str, lines: int = 0) -> tuple[int, str]:
    """Exit code and stderr of a program whose reader leaves after ``lines`` lines."""
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(lines):
        process.stdout.readline()
    process.stdout.close()
    errors = process.stderr.read()
    return process.wait(), errors


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT / "vla_edge_ros")))
def test_every_main_is_a_console_program(path):
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == "main":
            assert "console_program" in {getattr(item, "id", "") for item in node.decorator_list}


@pytest.mark.parametrize("unbuffered", [[], ["-u"]])
@pytest.mark.parametrize("body", ["print('x')", "print('x' * 100_000)", "print('x', flush=True)"])
def test_a_reader_that_left_ends_a_program_quietly(body, unbuffered):
    program = (
        "import sys\n"
        "from vla_edge_ros.console import console_program\n"
        "sys.stdin.readline()\n"  # until the reader has left
        "@console_program\n"
        f"def main():\n    for _ in range(3): {body}\n"
        "sys.exit(main())\n"
    )
    process = subprocess.Popen(
        [sys.executable, *unbuffered, "-c", program],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdout.close()
    process.stdin.write("\n")
    process.stdin.close()
    errors = process.stderr.read()
    assert (process.wait(), errors) == (READER_LEFT, "")


def test_a_broken_pipe_of_another_kind_is_an_error_like_any_other():
    @console_program
    def main() -> None:
        reading, writing = os.pipe()
        os.close(reading)
        try:
            os.write(writing, b"x")
        finally:
            os.close(writing)

    with pytest.raises(BrokenPipeError):
        main()


@pytest.mark.parametrize("arguments", [["--help"], ["--width", "64", "--height", "32", "--calls", "50"]])
def test_a_benchmark_and_its_help_may_be_cut(arguments):
    code, errors = run_unread(sys.executable, "-m", "vla_edge_ros.bench.hops.slot", *arguments)
    assert code in (0, READER_LEFT) and errors == ""  # argparse drops what it cannot print by itself


def test_a_summary_may_be_cut(tmp_path):
    from vla_edge_ros.recording.cycle_recorder import CycleRecorder
    from vla_edge_ros.types import ActionSource, CycleRecord, Outcome

    recorder = CycleRecorder(tmp_path)
    recorder.record(CycleRecord(1, Outcome.REFUSED, ActionSource.NONE))
    recorder.close()
    code, errors = run_unread(sys.executable, "-m", "vla_edge_ros.recording.summary", str(tmp_path))
    assert code == READER_LEFT and errors == ""


def test_an_error_that_a_user_can_fix_is_one_line(capsys):
    @console_program
    def main() -> None:
        raise ConfigError("rate_hz must be above 0, got -1")

    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert capsys.readouterr().err == "error: rate_hz must be above 0, got -1\n"
