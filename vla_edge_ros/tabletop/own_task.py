# SPDX-License-Identifier: Apache-2.0
"""A task of a user's own: a Python file that asks another question of the scenes of a task that exists.

The file defines ``BASE``, the task whose scenes are drawn (``point`` or ``point_moving``), ``INSTRUCTION``,
and ``target(plan)``, the number of the button to touch. It may define ``expert(hand_xy, target_xy)``,
velocities ``[t, 2]`` m/s from places ``[t, 2]`` m, in place of the straight way of ``expert.py``. Whoever
takes a task's name takes the path of such a file as well.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vla_edge_ros.errors import ConfigError
from vla_edge_ros.tabletop.expert import expert_velocity

BASES = ("point", "point_moving")

Expert = Callable[[ArrayLike, ArrayLike], NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class OwnTask:
    """What a file says. ``target`` takes an ``EpisodePlan`` of ``base``."""

    base: str
    instruction: str
    target: Callable[[Any], int]
    expert: Expert


@lru_cache(maxsize=16)
def load_own_task(path: str) -> OwnTask:
    """Run the file. Raises ``ConfigError`` where it cannot be run or says something else than is expected."""
    try:
        names = runpy.run_path(path)
    except Exception as error:
        raise ConfigError(f"{path}: expected a Python file of a task, got {error!r}") from error
    base, instruction = names.get("BASE", BASES[0]), names.get("INSTRUCTION")
    if base not in BASES:
        raise ConfigError(f"{path}: BASE must be one of {', '.join(BASES)}, got {base!r}")
    if not isinstance(instruction, str) or not instruction.split():
        raise ConfigError(f"{path}: INSTRUCTION must be a text of at least one word, got {instruction!r}")
    if not callable(names.get("target")):
        raise ConfigError(f"{path}: expected a function target(plan), got {names.get('target')!r}")
    expert = names.get("expert", expert_velocity)
    places = np.zeros((3, 2))
    try:
        moved = np.asarray(expert(places, places + 0.1), np.float64)
    except Exception as error:
        raise ConfigError(
            f"{path}: expert(hand_xy, target_xy) failed for places [3, 2]: {error!r}"
        ) from error
    if moved.shape != places.shape or not np.isfinite(moved).all():
        raise ConfigError(f"{path}: expert must give finite velocities [3, 2], got shape {moved.shape}")
    return OwnTask(base, " ".join(instruction.split()), names["target"], expert)


def target_of(path: str, plan: Any) -> int:
    """The button that the file at ``path`` names. Raises ``ConfigError`` where it is none of the plan's."""
    buttons = len(plan.colours)
    try:
        chosen = load_own_task(path).target(plan)
    except Exception as error:
        raise ConfigError(f"{path}: target failed for seed {plan.seed}: {error!r}") from error
    if not isinstance(chosen, int | np.integer) or not 0 <= chosen < buttons:
        raise ConfigError(f"{path}: target must be a number from 0 to {buttons - 1}, got {chosen!r}")
    return int(chosen)
