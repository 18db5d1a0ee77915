# SPDX-License-Identifier: Apache-2.0
"""Charts with two axes: lines over time, points, and pictures of what is kept."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from vla_edge_ros.bench.run.charts import ALARM, GRID, INK, WIDTH, Axis, colour_of, legend, line, svg, text

Points = Sequence[Sequence[float]]
MOST_POINTS = 600  # of a line; more than a pixel each would not be seen


def plot(
    series: Mapping[str, Points],
    alt: str,
    titles: tuple[str, str],
    *,
    joined: bool,
    diagonal: bool = False,
    from_zero: bool = True,
    marks: Mapping[str, float] | None = None,
    height: float = 300,
    first_colour: int = 0,
) -> str:
    """``series``: x and y by name; ``titles``: of the axes; ``marks``: vertical lines by name.

    ``first_colour``: number of the first series' colour, where another figure shows it too.
    """
    left, right, top = 70, 740, 22
    bottom = top + height
    xs = [x for points in series.values() for x, _ in points] or [0.0, 1.0]
    ys = [y for points in series.values() for _, y in points] or [0.0, 1.0]
    low = 0.0 if from_zero else min(ys)
    if diagonal:
        xs, ys = [*xs, *ys], [*xs, *ys]
    x_axis = Axis(min(xs), max(xs), left, right)
    y_axis = Axis(min(low, min(ys)), max(ys) * 1.03 or 1.0, bottom, top)
    parts = []
    for tick in y_axis.ticks():
        parts.append(line(left, y_axis.at(tick), right, y_axis.at(tick), GRID))
        parts.append(text(left - 6, y_axis.at(tick) + 4, f"{tick:g}", "s", "end"))
    for tick in x_axis.ticks():
        parts.append(text(x_axis.at(tick), bottom + 16, f"{tick:g}", "s", "middle"))
    for name, at in (marks or {}).items():
        parts.append(line(x_axis.at(at), top, x_axis.at(at), bottom, ALARM, 1, "4 3"))
        parts.append(text(x_axis.at(at) + 4, top + 10, name, "s"))
    if diagonal:
        ends = (max(x_axis.low, y_axis.low), min(x_axis.high, y_axis.high))
        (x1, y1), (x2, y2) = ((x_axis.at(end), y_axis.at(end)) for end in ends)
        parts.append(line(x1, y1, x2, y2, INK, 1, "4 3"))
    for index, points in enumerate(series.values(), start=first_colour):
        placed = [f"{x_axis.at(x):g},{y_axis.at(y):g}" for x, y in _thinned(points)]
        if joined:
            parts.append(
                f'<polyline points="{" ".join(placed)}" fill="none" stroke="{colour_of(index)}" '
                'stroke-width="2"/>'
            )
        else:
            dots = "".join(f"M{place}h0" for place in placed)
            parts.append(
                f'<path d="{dots}" stroke="{colour_of(index)}" stroke-width="4" stroke-linecap="round" '
                'stroke-opacity="0.6"/>'
            )
    parts.append(text(left, 14, titles[1], "s"))
    parts.append(text(right, bottom + 32, titles[0], "s", "end"))
    parts += legend(list(series), left, bottom + 50, first_colour)
    return svg(bottom + 58 + 18 * math.ceil(len(series) / 3), alt, parts)


def _thinned(points: Points) -> Points:
    if len(points) <= MOST_POINTS:
        return points
    chosen = np.unique(np.linspace(0, len(points) - 1, MOST_POINTS).round().astype(int))
    return [points[place] for place in chosen]


def strips(rows: Sequence[tuple[str, NDArray[np.uint8], Sequence[str]]], alt: str) -> str:
    """A row of pictures a moment: its label, the pictures ``[n, height, width, 3]``, a caption for each."""
    left, gap = 110, 3
    y, parts = 8.0, []
    for label, pictures, captions in rows:
        count, height, width, _ = pictures.shape
        shown_width = (WIDTH - left - 10) / max(count, 8)
        shown_height = (shown_width - gap) * height / width
        parts.append(text(left - 10, y + shown_height / 2 + 4, label, anchor="end"))
        for index in range(count):
            x = left + index * shown_width
            parts.append(
                f'<image x="{x:g}" y="{y:g}" width="{shown_width - gap:g}" height="{shown_height:g}" '
                f'href="{png_uri(pictures[index])}"/>'
            )
            middle = x + (shown_width - gap) / 2
            parts.append(text(middle, y + shown_height + 12, captions[index], "s", "middle"))
        y += shown_height + 26
    return svg(y, alt, parts)


def png_uri(picture: NDArray[np.uint8]) -> str:
    """``[height, width, 3]`` as a data URI."""
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
