# SPDX-License-Identifier: Apache-2.0
"""docs/benchmarks/README.md names every program and every data file."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "vla_edge_ros" / "bench"
PAGE = (ROOT / "docs" / "benchmarks" / "README.md").read_text(encoding="utf-8")
PROGRAMS = [
    ".".join(path.relative_to(BENCH).with_suffix("").parts).removesuffix(".__main__")
    for path in sorted(BENCH.rglob("*.py"))
    if '__name__ == "__main__"' in path.read_text(encoding="utf-8")
]
DATA = [path.name for path in sorted((ROOT / "docs" / "benchmarks").glob("*.json"))]


def test_there_are_programs():
    assert {"graph.live_run", "kernels.chunk", "studies.retention", "figures"} <= set(PROGRAMS)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_index_says_what_the_program_answers(program):
    line = next((line for line in PAGE.splitlines() if line.startswith(f"| `{program}` |")), "")
    assert len([cell for cell in line.strip("|").split("|") if cell.strip()]) == 4, f"{program}: {line}"


@pytest.mark.parametrize("name", DATA)
def test_the_index_says_where_a_data_file_is_from(name):
    assert f"`{name}`" in PAGE
