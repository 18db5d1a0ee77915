# SPDX-License-Identifier: Apache-2.0
"""One diagnostic status as values: whatever a message holds, it can be read and shown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vla_edge_ros.errors import shown

OK, WARN, ERROR, STALE = range(4)
LEVELS = ("OK", "WARN", "ERROR", "STALE")
# Of one message. This package sends seven statuses of 26 keys at most.
MOST_STATUSES, MOST_VALUES = 200, 200


@dataclass(frozen=True, slots=True)
class Reading:
    """``name`` is ``<node>: <subject>``; texts have no control characters; ``level`` is OK to STALE."""

    name: str
    level: int
    message: str
    values: Mapping[str, str]

    @property
    def node(self) -> str:
        return self.name.rpartition(": ")[0]

    @property
    def subject(self) -> str:
        return self.name.rpartition(": ")[2]

    def text(self, key: str) -> str:
        """Empty where the key is missing."""
        return self.values.get(key, "")

    def number(self, key: str) -> float:
        """``nan`` where the key is missing or holds no finite number."""
        try:
            number = float(self.text(key))
        except ValueError:
            return math.nan
        return number if math.isfinite(number) else math.nan

    def count(self, key: str) -> int:
        """A number as a count; 0 where there is none."""
        number = self.number(key)
        return 0 if math.isnan(number) else int(number)


def readings(array: Any) -> list[Reading]:
    """Of a ``DiagnosticArray``, in its order. Of a key that comes twice the last value counts."""
    return [
        Reading(
            shown(status.name),
            _level(status.level),
            shown(status.message),
            {shown(pair.key): shown(pair.value) for pair in status.values[:MOST_VALUES]},
        )
        for status in array.status[:MOST_STATUSES]
    ]


def _level(level: bytes | int) -> int:
    """The message's byte; what is no level is taken for the worst that a publisher may send."""
    number = int.from_bytes(level, "little") if isinstance(level, bytes) else level
    return number if OK <= number <= STALE else ERROR
