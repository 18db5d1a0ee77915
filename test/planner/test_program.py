# SPDX-License-Identifier: Apache-2.0
"""The program ``plan``: text, JSON, and one line for a question that is none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from vla_edge_ros.planner.__main__ import main
from vla_edge_ros.planner.boards import find_board

ROOT = Path(__file__).resolve().parents[2]
SMALL = ["--board", "orin-nano-super", "--weights", "int4", "--period-ms", "33"]


def test_text_ends_with_the_sentence_and_says_what_the_range_is(capsys):
    assert main(SMALL) == 0
    out = capsys.readouterr().out
    assert "This board was never measured." in out and "floor, ms" in out
    assert out.rstrip().splitlines()[-1].startswith("Does not fit into 33 ms: a chunk reads 6.35 GB")
    assert "2.5 GB are assumed to be taken by others" in out


def test_a_measured_board_has_numbers_and_no_ranges(capsys):
    assert main(["--board", "h200-sxm"]) == 0
    out = capsys.readouterr().out
    assert " to " not in out.split("chunk", 2)[-1].split("shortest")[0] and "never measured" not in out


def test_a_large_engine_needs_another_ceiling(capsys):
    main(["--board", "h200-sxm", "--model", "qwen2.5-coder-7b"])
    out = capsys.readouterr().out
    ceiling_mb = int(out.split("Set engine.vram_ceiling_mb to ")[1].split()[0])
    main(["--board", "h200-sxm", "--model", "qwen2.5-coder-7b", "--json"])
    memory = json.loads(capsys.readouterr().out)["memory_bytes"]
    held = sum(size for name, size in memory.items() if name != "CUDA context")
    assert held <= ceiling_mb * 2**20 < held + 2**20
    main(["--board", "h200-sxm"])
    assert "vram_ceiling_mb" not in capsys.readouterr().out


def test_json_has_every_figure_of_the_text(capsys):
    assert main([*SMALL, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["memory_total_bytes"] == sum(said["memory_bytes"].values())
    assert said["memory_available_bytes"] == find_board("orin-nano-super").available_bytes
    assert said["chunk_floor_ms"] == pytest.approx(sum(s["count"] * s["floor_ms"] for s in said["stages"]))
    assert said["passes"] == 8 and said["verdict"] == "too slow" and said["measured_board"] is False
    assert said["shortest_period_ms"][0] < said["shortest_period_ms"][1] and said["sources"]


WRONG = {
    "board": (["--board", "nano"], "--board must be one of orin-nano-super"),
    "model": (["--board", "l4", "--model", "gpt"], "--model must be one of"),
    "format": (["--board", "l4", "--weights", "fp8"], "engine.weights must be one of"),
    "keys and values": (["--board", "l4", "--kv", "fp8"], "engine.kv must be one of"),
    "decoding": (["--board", "l4", "--decoding", "both"], "action.decoding must be one of"),
    "sizes": (["--board", "l4", "--model", "tiny"], "the CUDA kernels need head_dim to be 64 or 128"),
    "slots": (["--board", "l4", "--slots", "-32"], "--slots must be a number from 1"),
    "more slots than positions": (["--board", "l4", "--slots", "99968"], "32768 positions, got '99968'"),
    "pages": (["--board", "l4", "--slots", "1000"], "must be a multiple of page_slots"),
    "period": (["--board", "l4", "--period-ms", "fast"], "--period-ms must be a number above 0"),
    "no period": (["--board", "l4", "--period-ms", "nan"], "--period-ms must be a number above 0"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_question_that_is_none_is_one_line(what, capsys):
    arguments, said = WRONG[what]
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    assert captured.err.startswith("plan: ") and said in captured.err


def test_it_needs_neither_cupy_nor_ros():
    program = (
        "import sys\n"
        "sys.modules['cupy'] = sys.modules['rclpy'] = None\n"
        "from vla_edge_ros.planner.__main__ import main\n"
        "sys.exit(main(['--board', 'l4']))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0 and "NVIDIA L4" in ran.stdout, ran.stderr
