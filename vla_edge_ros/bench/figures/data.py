# SPDX-License-Identifier: Apache-2.0
"""Rows of the committed benchmark files, by what they are of; numbers and tables in Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "docs" / "benchmarks"

Row = dict[str, Any]


# What files say that were written before the programs had these words.
_DRAFTS = {"held": "accepted", "wrong": "rejected"}


@cache
def rows(name: str) -> tuple[Row, ...]:
    """All rows of ``docs/benchmarks/<name>.json``."""
    document = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return tuple(
        {**each, "draft": _DRAFTS.get(each["draft"], each["draft"])} if "draft" in each else each
        for each in document["rows"]
    )


def row(name: str, **wanted: Any) -> Row:
    """The one row that has these values. Raises ``LookupError`` where there is none, or more than one."""
    found = [each for each in rows(name) if all(each.get(key) == value for key, value in wanted.items())]
    if len(found) != 1:
        raise LookupError(f"{name}.json: expected one row with {wanted}, got {len(found)}")
    return found[0]


def short(value: float) -> str:
    """Three digits that mean something: 1.94, 17.4, 232."""
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f}"


def pair(quantiles: Row) -> str:
    """Median and 99th percentile."""
    return f"{short(quantiles['median'])} / {short(quantiles['p99'])}"


def latency(run: Row) -> str:
    """Median, 99th percentile and maximum of a live run, in ms."""
    return " / ".join(f"{run[f'latency_ms_{what}']:.1f}" for what in ("median", "p99", "max"))


def count(value: int) -> str:
    return f"{value:,}"


def aborted(run: Row) -> int:
    """Cycles of a live run that were aborted between two passes."""
    return sum(number for what, number in run["fallbacks"].items() if ": aborted" in what)


def table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    written = [header, ["---"] * len(header), *lines]
    return (
        "\n".join(f"| {' | '.join(cells)} |" for cells in written)
        .replace("| --- ", "|---")
        .replace("--- |", "---|")
    )
