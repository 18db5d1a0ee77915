# SPDX-License-Identifier: Apache-2.0
"""Damage to what JSON and YAML hold: other types and ranges, keys that are lost, doubled or misspelt."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 2**31, 2**53 + 1, 2**64, 10**30, -(2**63),
    0.0, -0.0, 0.5, 1.0, 1e-300, 1e300, float("inf"), float("nan"),
    "", " ", "0", "1", "true", "false", "null", "nan", "~", "a" * 300, "\u00e9\U0001f916",
    "{{ 1 / 0 }}", "../x", "\x00",
    [], [[]], [0], [None], ["full_attention"], {}, {"a": 1}, {"": {}}, [{}], [1, "a", 2.0],
    [1, [2, [3, [4]]]],
)  # fmt: skip


def places(tree: Any) -> list[tuple[Any, Any]]:
    """``(container, key or index)`` of everything inside ``tree``."""
    found: list[tuple[Any, Any]] = []
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        found.append((tree, key))
        found += places(value)
    return found


def mutate_tree(tree: Any, random: Random, more_values: tuple[Any, ...] = ()) -> Any:
    """A changed copy. ``more_values``: what else the format's keys may be set to."""
    tree = copy.deepcopy(tree)
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 5))):
        there = places(tree)
        if not there:
            return random.choice(ODD_VALUES)
        container, key = random.choice(there)
        _change(container, key, there, random, more_values)
    return tree


def _change(
    container: Any, key: Any, there: list[tuple[Any, Any]], random: Random, more_values: tuple[Any, ...]
) -> None:
    other_container, other_key = random.choice(there)
    kind = random.randrange(7)
    if kind == 0:
        del container[key]
    elif kind == 1:
        container[key] = copy.deepcopy(random.choice(ODD_VALUES))
    elif kind == 2 and more_values:
        container[key] = copy.deepcopy(random.choice(more_values))
    elif kind == 3:
        container[key] = copy.deepcopy(other_container[other_key])
    elif kind == 4:
        container[key] = _next_to(container[key], random)
    elif kind == 5 and isinstance(container, dict):
        container[random.choice((f"{key}_", str(key)[:-1], str(key).upper()))] = container.pop(key)
    else:
        container[key] = random.choice(([container[key]], {"value": container[key]}, [container[key]] * 2))


def _next_to(value: Any, random: Random) -> Any:
    """A value of the same meaning in another type, or close by."""
    if isinstance(value, bool):
        return random.choice((not value, str(value), int(value)))
    if isinstance(value, int | float):
        return random.choice((value + 1, value - 1, -value, value * 2, str(value), float(value), value * 0.5))
    if isinstance(value, str):
        return random.choice((value[:-1], value + "x", value.upper(), value * 3, [value]))
    if isinstance(value, list):
        return random.choice((value[:-1], value + value, value[::-1]))
    return [value]
