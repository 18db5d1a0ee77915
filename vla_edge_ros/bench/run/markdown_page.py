# SPDX-License-Identifier: Apache-2.0
"""A page as Markdown, its figures as files beside it."""

from __future__ import annotations

from collections.abc import Callable

from vla_edge_ros.bench.figures.data import table as markdown_table
from vla_edge_ros.bench.run.blocks import Figure, Page, Section, Table


def render_markdown(page: Page, path_of: Callable[[Figure], str]) -> str:
    """``path_of``: where a figure's file is, relative to the page's."""
    parts = [f"# {_plain(page.title)}"]
    if page.notice:
        parts.append(f"**{_plain(page.notice)}**")
    for section in page.sections:
        parts += _section(section, path_of)
    return "\n\n".join(parts) + "\n"


def _section(section: Section, path_of: Callable[[Figure], str]) -> list[str]:
    parts = [f"## {_plain(section.title)}", *map(_plain, section.answers)]
    for figure in section.figures:
        parts.append(f"![{_plain(figure.alt)}]({path_of(figure)})")
        parts.append(f"*{_plain(figure.caption)}*")
    for table in section.tables:
        parts.append(f"**{_plain(table.caption)}**")
        parts.append(_table(table))
    return parts


def _table(table: Table) -> str:
    lines = [[_cell(cell) for cell in row] for row in table.cells()]
    return markdown_table([title for title, _ in table.columns], lines)


def _cell(text: str) -> str:
    return _plain(text).replace("|", "\\|")


def _plain(text: str) -> str:
    """A line that Markdown shows as it is: file names hold underscores and brackets."""
    escaped = "".join(f"\\{c}" if c in "\\`*_[]<>#" else c for c in text)
    return " ".join(escaped.split())
