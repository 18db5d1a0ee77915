# SPDX-License-Identifier: Apache-2.0
"""A page as one HTML file that needs no network: style and figures are inside, and there is no script."""

from __future__ import annotations

from html import escape

from vla_edge_ros.bench.run.blocks import Figure, Page, Section, Table

_STYLE = """
body { margin: 0 auto; max-width: 60rem; padding: 1rem 1.25rem 4rem; background: #ffffff; color: #1f2328;
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2.5rem; }
a { color: #0550ae; } a:focus-visible { outline: 3px solid #0550ae; }
nav ul { columns: 2; padding-left: 1.2rem; }
.notice { border: 2px solid #b00020; padding: .75rem 1rem; font-weight: 600; }
.answer { font-weight: 600; }
figure { margin: 1.25rem 0; } figure svg { width: 100%; height: auto; border: 1px solid #d1d9e0; }
figcaption { color: #59636e; font-size: .9rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; font-size: .9rem; }
caption { text-align: left; font-weight: 600; padding: .25rem 0; }
th, td { border-bottom: 1px solid #d1d9e0; padding: .25rem .6rem; text-align: left; vertical-align: top; }
th.number, td.number { text-align: right; }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
@media print { nav { display: none; } h2 { break-after: avoid; } figure, tr { break-inside: avoid; } }
"""


def render_html(page: Page) -> str:
    """The whole file."""
    links = "".join(
        f'<li><a href="#{escape(section.ident)}">{escape(section.title)}</a></li>'
        for section in page.sections
    )
    notice = f'<p class="notice" role="alert">{escape(page.notice)}</p>' if page.notice else ""
    body = "\n".join(_section(section) for section in page.sections)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(page.title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<header>
<h1>{escape(page.title)}</h1>
{notice}
<nav aria-label="Sections"><ul>{links}</ul></nav>
</header>
<main>
{body}
</main>
</body>
</html>
"""


def _section(section: Section) -> str:
    ident = escape(section.ident)
    parts = [f'<section aria-labelledby="{ident}">', f'<h2 id="{ident}">{escape(section.title)}</h2>']
    for index, answer in enumerate(section.answers):
        parts.append(f'<p class="answer">{escape(answer)}</p>' if index == 0 else f"<p>{escape(answer)}</p>")
    parts += [_figure(figure) for figure in section.figures]
    parts += [_table(table) for table in section.tables]
    return "\n".join([*parts, "</section>"])


def _figure(figure: Figure) -> str:
    """An SVG's rules of style would hold for the whole page; each class is its own in every figure."""
    return (
        f'<figure id="figure-{escape(figure.name)}">\n{figure.svg}\n'
        f"<figcaption>{escape(figure.caption)}</figcaption>\n</figure>"
    )


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col"{_css(kind)}>{escape(title)}</th>' for title, kind in table.columns)
    rows = []
    for cells in table.cells():
        written = [f'<th scope="row">{escape(cells[0])}</th>']
        for text, (_, kind) in zip(cells[1:], table.columns[1:], strict=True):
            written.append(f"<td{_css(kind)}>{escape(text)}</td>")
        rows.append(f"<tr>{''.join(written)}</tr>")
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.caption)}">'
        f"<table><caption>{escape(table.caption)}</caption><thead><tr>{head}</tr></thead>\n"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _css(kind: str) -> str:
    return "" if kind == "text" else ' class="number"'
