# SPDX-License-Identifier: Apache-2.0
"""The README's picture: latency of live runs against the deadline, as an SVG without any library."""

from __future__ import annotations

from vla_edge_ros.bench.figures.data import aborted, count, rows

RUNS = (
    ("live-h200-16.7ms-no-drafts", "without drafts", 16.7),
    ("live-h200-16.7ms-drafts", "with drafts (default)", 16.7),
)
WIDTH, HEIGHT = 800, 254
LEFT, RIGHT, TOP, ROW = 190, 770, 76, 56
END_MS = 18.0

_STYLE = (
    "text{font:13px sans-serif;fill:#24292f}.small{font-size:11px;fill:#57606a}.title{font-size:15px}"
    ".mark{font-size:11px;text-anchor:middle}"
)


def _x(ms: float) -> float:
    return round(LEFT + (RIGHT - LEFT) * ms / END_MS, 1)


def render() -> str:
    """The whole file."""
    deadline_ms = RUNS[0][2]
    bottom = TOP + ROW * len(RUNS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-label="Latency of fresh actions against their deadline">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        '<text class="title" x="16" y="26">From grid point to published fresh action: '
        "60 Hz camera, 15 minutes each, one H200</text>",
        '<text class="small" x="16" y="44">1.5 B parameter sizes with random weights: latencies are real, '
        "actions mean nothing</text>",
    ]
    for ms in range(0, 19, 2):
        parts.append(f'<line x1="{_x(ms)}" y1="{TOP - 8}" x2="{_x(ms)}" y2="{bottom}" stroke="#eaeef2"/>')
        parts.append(f'<text class="mark" x="{_x(ms)}" y="{bottom + 16}">{ms} ms</text>')
    for index, (name, label, _) in enumerate(RUNS):
        parts += _row(name, label, TOP + ROW * index)
    parts += [
        f'<line x1="{_x(deadline_ms)}" y1="{TOP - 14}" x2="{_x(deadline_ms)}" y2="{bottom}" '
        'stroke="#cf222e" stroke-width="2"/>',
        f'<text class="mark" x="{_x(deadline_ms)}" y="{TOP - 18}">deadline {deadline_ms:g} ms</text>',
        f'<text class="small" x="16" y="{bottom + 38}">Bar: from 0 to the median. Line: to the 99th '
        "percentile. Dot: the slowest fresh action of the run.</text>",
        f'<text class="small" x="16" y="{bottom + 56}">Drafts save time only where actions repeat, as '
        "those of random weights do. While a robot moves, expect the upper row.</text>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _row(name: str, label: str, y: int) -> list[str]:
    run = rows(name)[0]
    middle = y + 16
    median, p99, most = (run[f"latency_ms_{what}"] for what in ("median", "p99", "max"))
    said = f"{count(run['fresh'])} fresh, {aborted(run)} aborted, {run['late_messages']} late"
    return [
        f'<text x="16" y="{middle + 1}">{label}</text>',
        f'<text class="small" x="16" y="{middle + 16}">{said}</text>',
        f'<rect x="{LEFT}" y="{middle - 9}" width="{round(_x(median) - LEFT, 1)}" height="18" '
        'fill="#0969da" rx="2"/>',
        f'<line x1="{_x(median)}" y1="{middle}" x2="{_x(p99)}" y2="{middle}" stroke="#0969da" '
        'stroke-width="3"/>',
        f'<circle cx="{_x(most)}" cy="{middle}" r="5" fill="#0969da"/>',
        *(f'<text class="mark" x="{_x(ms)}" y="{middle + 23}">{ms:.1f}</text>' for ms in (median, p99, most)),
    ]
