# SPDX-License-Identifier: Apache-2.0
"""File names in the order of their numbers: ``2.png`` before ``10.png``, ``1.05.png`` before ``1.1.png``.

Recorders name pictures by counters and by times: ``frame12``, ``1700000000.05``, ``t_-0.5``, ``1e-05``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal

_FRACTION = r"(?<![0-9]\.)[0-9]+\.[0-9]+(?!\.?[0-9])"  # 1.2.3 is a row of counters, as in a version or a date
_EXPONENT = r"(?<![A-Za-z0-9.])[0-9](?:\.[0-9]+)?[eE][+-]?[0-9]{1,3}(?![A-Za-z0-9])"  # not S01E02, not 3e5f
# A dash between letters or digits is no sign: frame-2, 2024-01-02.
_SIGN = r"(?:(?:^|(?<=[_=,(]))[+-])?"
_DECIMAL = re.compile(f"{_SIGN}(?:{_EXPONENT}|{_FRACTION}|[0-9]+)")
_COUNTER = re.compile("[0-9]+")

Key = list[tuple[int, Decimal, str]]


def natural_key(name: str, decimals: bool = True) -> Key:
    """Sort key that compares numbers by value. ``decimals``: with sign, fraction and exponent."""
    key: Key = []
    end = 0
    for number in (_DECIMAL if decimals else _COUNTER).finditer(name):
        if number.start() > end:
            key.append((1, Decimal(0), name[end : number.start()]))
        key.append((0, Decimal(number.group()), ""))
        end = number.end()
    if end < len(name):
        key.append((1, Decimal(0), name[end:]))
    return [*key, (-1, Decimal(0), name)]  # 1.0 and 1.00 are equal; their order must not be the disk's


def have_decimals(names: Iterable[str]) -> bool:
    """Whether what follows a point in ``names`` reads as a fraction, and not as a second counter.

    ``1.9, 1.10, 1.11`` and ``seconds.nanoseconds`` without leading zeros are counters. No fraction ends in 0
    unless all are printed with the same number of digits, and then both readings give the same order.
    """
    fractions = {number.split(".")[1] for name in names for number in re.findall(_FRACTION, name)}
    ends_in_zero = any(len(digits) > 1 and digits.endswith("0") for digits in fractions)
    return not (ends_in_zero and len({len(digits) for digits in fractions}) > 1)
