# SPDX-License-Identifier: Apache-2.0
"""The index lists every page, and what the symptom tables quote is what the package says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
INDEX = (DOCS / "README.md").read_text(encoding="utf-8")
PAGES = [path.relative_to(DOCS).as_posix() for path in sorted(DOCS.rglob("*.md")) if path.name != "README.md"]
SYMPTOMS = (DOCS / "how-to" / "when-something-is-wrong.md").read_text(encoding="utf-8")


def said() -> str:
    """All text of the package, as it is put together: literals joined, ``...`` for what is filled in."""
    modules = sorted((ROOT / "vla_edge_ros").rglob("*.py"))
    source = "\n".join(path.read_text(encoding="utf-8") for path in modules)
    joined = re.sub(r'"\s*\n\s*f?"', "", source)
    return re.sub(r"\{[^{}]*\}|%s", "...", joined)


SAID = said()
QUOTED = sorted(
    {
        text
        for line in SYMPTOMS.splitlines()
        if line.startswith("| ") and "---" not in line
        for text in re.findall(r"`([^`]+)`", line.split("|")[1])
    }
)


@pytest.mark.parametrize("page", PAGES)
def test_the_index_has_a_line_for_the_page(page):
    assert re.search(rf"^- \[[^\]]+\]\({re.escape(page)}\): \S", INDEX, re.MULTILINE)


def test_there_are_symptoms():
    assert len(QUOTED) > 30


@pytest.mark.parametrize("text", QUOTED)
def test_a_quoted_text_is_one_that_the_package_says(text):
    pieces = [
        piece.strip(" :;,()")
        for piece in re.split(r"\.\.\.|<\w+>|\(|\d+", text.removeprefix("cannot configure: "))
    ]
    longest = max(pieces, key=len)
    assert len(longest) >= 4
    assert longest in SAID
