# SPDX-License-Identifier: Apache-2.0
"""What a report is made of: sections of sentences, tables of raw numbers, figures. Renderers add nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Value = str | int | float | None

KINDS = ("text", "count", "share", "ms", "mb", "s", "number")


def shown(kind: str, value: Value) -> str:
    """A table's cell. ``share``: 0 to 1, shown in per cent; what was not measured is a dash."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    if kind == "text" or isinstance(value, str):
        return str(value)
    value = 0.0 if abs(value) < 5e-10 else value  # no -0.00
    if kind == "count":
        return f"{value:,.0f}"
    if kind == "share":
        return f"{100 * value:.2f} %"
    if kind == "ms":
        return f"{value:.2f}"
    if kind == "mb":
        return f"{value:.1f}"
    if kind == "s":
        return f"{value:.2f}"
    assert kind == "number", kind
    return f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class Table:
    """``columns``: title and kind (``KINDS``); ``rows``: raw values, one a column."""

    caption: str
    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[Value]]

    def cells(self) -> list[list[str]]:
        return [
            [shown(kind, value) for (_, kind), value in zip(self.columns, row, strict=True)]
            for row in self.rows
        ]

    def as_json(self) -> dict[str, Any]:
        rows = [list(row) for row in self.rows]
        return {"caption": self.caption, "columns": [list(column) for column in self.columns], "rows": rows}


@dataclass(frozen=True, slots=True)
class Figure:
    """``svg``: a whole file without outside references; ``alt`` says in words what it shows."""

    name: str
    caption: str
    alt: str
    svg: str


@dataclass(frozen=True, slots=True)
class Section:
    """``title`` asks, the first of ``answers`` answers."""

    ident: str
    title: str
    answers: Sequence[str]
    tables: Sequence[Table] = field(default=())
    figures: Sequence[Figure] = field(default=())


@dataclass(frozen=True, slots=True)
class Page:
    """``notice``: shown before all else where something is wrong with the whole, else empty."""

    title: str
    notice: str
    sections: Sequence[Section]

    def as_json(self) -> list[dict[str, Any]]:
        return [
            {
                "id": section.ident,
                "title": section.title,
                "answers": list(section.answers),
                "tables": [table.as_json() for table in section.tables],
                "figures": [
                    {"name": figure.name, "caption": figure.caption, "alt": figure.alt}
                    for figure in section.figures
                ],
            }
            for section in self.sections
        ]
