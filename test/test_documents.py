# SPDX-License-Identifier: Apache-2.0
"""What the documents name exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "vla_edge_ros"
WALK = ROOT / "docs" / "explanation" / "from-picture-to-motion.md"
NAMED = re.findall(
    r"^\d+\. `(\w+)\.(\w+)` \(`([\w/]+\.py)`\)", WALK.read_text(encoding="utf-8"), re.MULTILINE
)
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"])


def methods(file: str) -> set[tuple[str, str]]:
    """``(class, method)`` of everything that a module of the package defines."""
    tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"))
    return {
        (holder.name, member.name)
        for holder in ast.walk(tree)
        if isinstance(holder, ast.ClassDef)
        for member in holder.body
        if isinstance(member, ast.FunctionDef)
    }


def test_the_walk_names_at_most_twelve_functions():
    assert 8 <= len(NAMED) <= 12
    steps = re.findall(r"^\d+\. ", WALK.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(steps) == len(NAMED), "each step names its function and its file"


@pytest.mark.parametrize(("holder", "function", "file"), NAMED)
def test_each_function_of_the_walk_exists(holder, function, file):
    assert (holder, function) in methods(file)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target
