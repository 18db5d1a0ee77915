# SPDX-License-Identifier: Apache-2.0
"""docs/faults.md: every fault has its row, and every test and file that it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROWS = {
    cells[0]: cells
    for line in (ROOT / "docs" / "faults.md").read_text(encoding="utf-8").splitlines()
    if re.fullmatch(r"[ARU]\d+[a-z]?", (cells := [cell.strip() for cell in line.strip("|").split("|")])[0])
}


def exists(named: str) -> bool:
    """A file of the package, or of the repository; with ``*`` at least one."""
    return any(next(base.glob(named), None) for base in (ROOT / "vla_edge_ros", ROOT))


def test_every_fault_has_a_row():
    assert [name for name in ROWS if name[0] == "A"] == [f"A{number}" for number in range(1, 51)]


@pytest.mark.parametrize("fault", ROWS)
def test_row_names_what_exists(fault):
    _, rule, where, proof = ROWS[fault]
    assert rule.endswith(".")
    assert all(exists(file) for file in re.findall(r"`([^`]+)`", where)), where
    tests = re.findall(r"`([\w/]+\.py)::(\w+)`", proof)
    assert tests or proof.startswith(("open: ", "not applicable: ")), proof
    for file, name in tests:
        assert f"def {name}(" in (ROOT / "test" / file).read_text(encoding="utf-8"), f"{file}::{name}"
