# SPDX-License-Identifier: Apache-2.0
"""Lines of text with styles, as wide as the terminal and no wider."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence

# ANSI: select graphic rendition. By what they mean, so that one place decides how it looks.
STYLES = {"": "", "title": "1", "label": "2", "good": "32", "warn": "33", "bad": "31"}

Span = tuple[str, str]  # text, style
Line = list[Span]

BARS = "▁▂▃▄▅▆▇█"
PLAIN_BARS = "_.-:=+*#"  # where the terminal's encoding has no blocks


def columns(character: str) -> int:
    """How many of a terminal's columns it takes."""
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def clipped(text: str, width: int) -> str:
    """As much of ``text`` as fits into ``width`` columns; what is longer ends in ``~``."""
    if sum(map(columns, text)) <= width:
        return text
    kept, room = [], width - 1
    for character in text:
        room -= columns(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept) + "~" if width > 0 else ""


def painted(line: Iterable[Span], width: int, *, has_colour: bool) -> str:
    """At most ``width`` columns wide, with ANSI colours if ``has_colour``."""
    parts = []
    for text, style in line:
        text = clipped(text, width)
        width -= sum(map(columns, text))
        code = STYLES[style] if has_colour else ""
        parts.append(f"\x1b[{code}m{text}\x1b[0m" if code and text else text)
        if width <= 0:
            break
    return "".join(parts)


def bar(value: float, full: float, *, is_unicode: bool) -> str:
    """One column, as high as ``value`` is of ``full``; a space where there is no value."""
    if math.isnan(value) or not full > 0:
        return " "
    levels = BARS if is_unicode else PLAIN_BARS
    return levels[min(max(math.ceil(len(levels) * value / full), 1), len(levels)) - 1]


def joined(parts: Sequence[str], between: str = "  ") -> str:
    """Those that say something."""
    return between.join(part for part in parts if part)
