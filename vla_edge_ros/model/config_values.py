# SPDX-License-Identifier: Apache-2.0
"""The values of one ``config.json``, each read as the type that it must have.

A key that is there with a value of another type is never taken for absent, and text, 0 or null never for a
flag: whoever wrote it meant something. Refusals are ``WeightsError`` with file, key, what is expected and
what was found.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, NoReturn

from vla_edge_ros.errors import WeightsError

# No model comes near these; without them a mistyped size takes hours or all memory before it is refused.
MAX_SIZE = 2**31 - 1
MAX_LAYERS = 1024


class ConfigValues:
    """Typed access to ``values``; ``where`` names their file, or the object in it, in errors."""

    def __init__(self, where: str, values: Mapping[str, Any]):
        self.where = where
        self._values = values

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def raw(self, key: str) -> Any:
        """As it stands in the file; None where it is absent or null."""
        return self._values.get(key)

    def keys(self) -> set[str]:
        return set(self._values)

    def refuse(self, key: str, expected: str) -> NoReturn:
        raise WeightsError(f"{self.where}: {key} must be {expected}, got {self._values.get(key)!r}")

    def size(self, key: str, default: int | None = None, high: int = MAX_SIZE) -> int:
        """A positive integer; ``default`` where the key is absent, an error without one."""
        if key not in self._values and default is not None:
            return default
        value = self._values.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= high:
            self.refuse(key, f"a positive integer of at most {high}")
        return value

    def number(self, key: str, default: float, low: float, below: float = sys.float_info.max) -> float:
        """A number ``low <= number < below``; ``default`` where the key is absent."""
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value < below:
            self.refuse(key, f"a number of at least {low:g} and below {below:g}")
        return float(value)

    def check_integer(self, key: str, or_null: bool) -> None:
        """For a key that has no effect here and whose value must make sense all the same."""
        value = self._values.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, int | None if or_null else int):
            self.refuse(key, "an integer or null" if or_null else "an integer")

    def flag(self, key: str, default: bool) -> bool:
        """true or false; ``default`` where the key is absent."""
        value = self._values.get(key, default)
        if not isinstance(value, bool):
            self.refuse(key, "true or false")
        return value

    def section(self, key: str) -> ConfigValues | None:
        """A JSON object; None where it is absent, null or empty."""
        value = self._values.get(key)
        if value is None or value == {}:
            return None
        if not isinstance(value, Mapping):
            self.refuse(key, "an object or null")
        return ConfigValues(f"{self.where}: {key}", value)

    def require(self, key: str, only: object) -> None:
        """Refuse any value but ``only``, which is also what an absent key means."""
        value = self._values.get(key, only)
        if type(value) is not type(only) or value != only:
            self.refuse(key, repr(only))
