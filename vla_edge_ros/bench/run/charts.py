# SPDX-License-Identifier: Apache-2.0
"""Charts as SVG text, without a library: a machine that runs a robot need not have one to see its report.

Colours are those of Okabe and Ito, which colour-blind readers tell apart; every series has its name in words.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#5c4b8a", "#000000")
WIDTH = 760
INK, MUTED, GRID, ALARM = "#1f2328", "#59636e", "#e3e7eb", "#b00020"
_STYLE = f"text{{font:13px sans-serif;fill:{INK}}}.s{{font-size:11px;fill:{MUTED}}}"


def colour_of(index: int) -> str:
    return PALETTE[index % len(PALETTE)]


@dataclass(frozen=True, slots=True)
class Axis:
    """From ``low`` to ``high`` over the pixels ``begin`` to ``end``."""

    low: float
    high: float
    begin: float
    end: float

    def at(self, value: float) -> float:
        span = (self.high - self.low) or 1.0
        share = min(1.0, max(0.0, (value - self.low) / span))
        return round(self.begin + share * (self.end - self.begin), 1)

    def ticks(self, count: int = 6) -> list[float]:
        """Round numbers within."""
        raw = (self.high - self.low) / count or 1.0
        step = 10 ** math.floor(math.log10(raw))
        step *= next(factor for factor in (1, 2, 5, 10) if factor * step >= raw * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [round(number * step, 10) for number in range(first, last + 1)]


def text(x: float, y: float, words: str, css: str = "", anchor: str = "start") -> str:
    style = f' class="{css}"' if css else ""
    return f'<text{style} x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1, dash: str = "") -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{colour}" '
        f'stroke-width="{width:g}"{dashes}/>'
    )


def svg(height: float, alt: str, parts: Iterable[str]) -> str:
    """A whole file; the text alternative is its title."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img">',
            f"<title>{escape(alt)}</title>",
            f"<style>{_STYLE}</style>",
            f'<rect width="{WIDTH}" height="{height:g}" fill="#ffffff"/>',
            *parts,
            "</svg>",
        ]
    )


def _vertical_grid(axis: Axis, top: float, bottom: float, unit: str) -> list[str]:
    parts = []
    for tick in axis.ticks():
        parts.append(line(axis.at(tick), top, axis.at(tick), bottom, GRID))
        parts.append(text(axis.at(tick), bottom + 16, f"{tick:g}{unit}", "s", "middle"))
    return parts


@dataclass(frozen=True, slots=True)
class Bar:
    """``note`` stands behind the bar; ``low`` and ``high``: the ends of its interval."""

    label: str
    value: float
    note: str
    low: float | None = None
    high: float | None = None


def bar_chart(bars: Sequence[Bar], alt: str, unit: str, least_end: float) -> str:
    """Horizontal bars from 0 with whiskers; the axis ends at ``least_end`` or beyond."""
    left, right, top, row = 190, 560, 14, 34
    bottom = top + row * len(bars)
    ends = [bar.high if bar.high is not None and math.isfinite(bar.high) else bar.value for bar in bars]
    axis = Axis(0.0, max([least_end, *ends]), left, right)
    parts = _vertical_grid(axis, top, bottom, unit)
    for index, bar in enumerate(bars):
        y = top + row * index + row / 2
        width = max(0.0, axis.at(bar.value) - left)
        parts.append(text(left - 10, y + 4, bar.label, anchor="end"))
        parts.append(
            f'<rect x="{left}" y="{y - 8:g}" width="{width:g}" height="16" fill="{colour_of(index)}"/>'
        )
        if bar.low is not None and bar.high is not None and math.isfinite(bar.low + bar.high):
            parts.append(line(axis.at(bar.low), y, axis.at(bar.high), y, INK, 2))
            parts += [line(axis.at(x), y - 5, axis.at(x), y + 5, INK, 2) for x in (bar.low, bar.high)]
        parts.append(text(right + 12, y + 4, bar.note, "s"))
    return svg(bottom + 28, alt, parts)


@dataclass(frozen=True, slots=True)
class Range:
    """``p50``, ``p95``, ``p99`` and ``max`` of one thing; ``colour``: the number of its series."""

    label: str
    values: Mapping[str, float]
    colour: int


def range_chart(ranges: Sequence[Range], alt: str, limit: float | None, limit_name: str = "") -> str:
    """Bar to the median, line to the 99th percentile with a tick at the 95th, dot at the largest.

    The axis is cut at four times the largest 99th percentile, or the limit: a single outlier would press
    all else to its edge. A dot beyond it becomes an arrow with its number.
    """
    left, right, top, row = 270, 700, 26, 24
    bottom = top + row * len(ranges)
    largest = max([each.values["max"] for each in ranges] + [1e-6])
    most = max([4 * max(each.values["p99"] for each in ranges), 1.1 * (limit or 0.0), 1e-6])
    axis = Axis(
        0.0, min(1.05 * largest, most) if limit is None else max(1.1 * limit, min(largest, most)), left, right
    )
    parts = _vertical_grid(axis, top, bottom, " ms")
    for index, each in enumerate(ranges):
        y, colour = top + row * index + row / 2, colour_of(each.colour)
        p50, p95, p99, most = (each.values[name] for name in ("p50", "p95", "p99", "max"))
        parts.append(text(left - 10, y + 4, each.label, anchor="end"))
        parts.append(
            f'<rect x="{left}" y="{y - 7:g}" width="{max(1.0, axis.at(p50) - left):g}" height="14" '
            f'fill="{colour}"/>'
        )
        parts.append(line(axis.at(p50), y, axis.at(p99), y, colour, 3))
        parts.append(line(axis.at(p95), y - 6, axis.at(p95), y + 6, colour, 2))
        if most <= axis.high:
            parts.append(f'<circle cx="{axis.at(most):g}" cy="{y:g}" r="4" fill="{colour}"/>')
        else:
            parts.append(text(right + 4, y + 4, f"→ {most:.0f} ms", "s"))
    if limit is not None:
        parts.append(line(axis.at(limit), top - 8, axis.at(limit), bottom, ALARM, 2))
        parts.append(text(axis.at(limit), top - 12, f"{limit_name} {limit:g} ms", "s", "middle"))
    return svg(bottom + 28, alt, parts)


def stacked_chart(rows: Mapping[str, Mapping[str, float]], alt: str) -> str:
    """A bar a row, its parts side by side as shares of 100 %; the legend names the parts."""
    left, right, top, row = 190, 740, 14, 34
    names = list(dict.fromkeys(name for parts in rows.values() for name in parts))
    bottom = top + row * len(rows)
    high = max([sum(parts.values()) for parts in rows.values()] + [1e-9])
    axis = Axis(0.0, 100 * min(1.0, 1.1 * high), left, right)
    drawn = _vertical_grid(axis, top, bottom, " %")
    for index, (label, parts) in enumerate(rows.items()):
        y, begin = top + row * index + row / 2, 0.0
        drawn.append(text(left - 10, y + 4, label, anchor="end"))
        for name, share in parts.items():
            x, end = axis.at(100 * begin), axis.at(100 * (begin + share))
            drawn.append(
                f'<rect x="{x:g}" y="{y - 9:g}" width="{end - x:g}" height="18" '
                f'fill="{colour_of(names.index(name))}"><title>{escape(name)}: {share:.2%}</title></rect>'
            )
            begin += share
    drawn += legend(names, left, bottom + 36)
    return svg(bottom + 46 + 18 * math.ceil(len(names) / 3), alt, drawn)


def legend(names: Sequence[str], x: float, y: float, first_colour: int = 0) -> list[str]:
    parts = []
    for index, name in enumerate(names):
        at_x, at_y = x + 185 * (index % 3), y + 18 * (index // 3)
        colour = colour_of(first_colour + index)
        parts.append(f'<rect x="{at_x:g}" y="{at_y - 10:g}" width="12" height="12" fill="{colour}"/>')
        parts.append(text(at_x + 18, at_y, name, "s"))
    return parts
