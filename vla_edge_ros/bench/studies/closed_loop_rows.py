# SPDX-License-Identifier: Apache-2.0
"""Which rows the closed-loop study has, and how one episode of a row is played."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.action_config import ActionConfig
from vla_edge_ros.config import CacheConfig, EngineConfig, ModelSource, VlaConfig
from vla_edge_ros.engines.base import Engine
from vla_edge_ros.tabletop.arm import HAND_SPEED
from vla_edge_ros.tabletop.episode import Episode
from vla_edge_ros.tabletop.lockstep import ORACLE, Conditions, Oracle, Result, Stream, play
from vla_edge_ros.tabletop.scene import COLOURS
from vla_edge_ros.tabletop.tasks import EpisodePlan, draw

FIRST_SEED = 1_000_000  # training draws from those below
EXPERT = "expert"
DEFAULT = CacheConfig().eviction


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row: a task under one policy of eviction and one kind of trouble.

    ``model``: ``trained``, ``random`` (weights by seed, the same sizes) or ``expert`` (no model at all).
    ``trouble``: ``none``, ``frozen_camera`` (its first picture for ever) or ``wrong_instruction``.
    """

    task: str
    policy: str = DEFAULT
    slots: int = 1024
    delay: int = 0
    model: str = "trained"
    weights: str = "bf16"
    decoding: str = "parallel"
    trouble: str = "none"
    lag: int = 0
    refused: float = 0.0
    repeats: int = 3
    remember: bool = False


def delay_of(slots: int) -> int:
    """Ten times the frames that the cache holds, in cycles: beyond what layers can hand on (see the page)."""
    return 280 if slots == 1024 else 1240


def cases(name: str, slots: int) -> list[Case]:
    """The rows of one set."""
    delay = delay_of(slots)
    recall = Case(task="recall", slots=slots, delay=delay)
    point = Case(task="point", slots=slots)
    memory = [recall, replace(recall, task="recall_last")]
    sets = {
        "tasks": [point, replace(point, task="point_moving"), *memory],
        "policies": [
            replace(case, policy=policy) for case in memory for policy in (ORACLE, DEFAULT, "bridge", "fifo")
        ],
        "other_policies": [
            replace(case, policy=policy)
            for case in memory
            for policy in ("semantic", "reservoir", "time_thinning", "bridge_distance")
        ],
        "inside": [replace(recall, policy="fifo", delay=10)],
        "controls": [
            changed
            for case in (point, recall)
            for changed in (
                replace(case, model=EXPERT),
                replace(case, model="random"),
                replace(case, trouble="frozen_camera"),
                replace(case, trouble="wrong_instruction"),
            )
        ],
        "formats": [replace(case, weights=kind) for case in (point, recall) for kind in ("int8", "int4")],
        "lag": [replace(point, task="point_moving", lag=lag) for lag in (2, 4, 6)],
        "refusals": [
            replace(case, refused=refused, repeats=repeats, remember=remember)
            for case, remembers in ((replace(point, task="point_moving"), (False,)), (recall, (False, True)))
            for refused in (0.2, 0.5, 0.8)
            for repeats in ((3, 0) if case.task == "point_moving" else (3,))
            for remember in remembers
        ],
    }
    return sets[name]


SETS = ("tasks", "policies", "other_policies", "inside", "controls", "formats", "lag", "refusals")


def config_of(case: Case, model: str, engine: str) -> VlaConfig:
    """The node's configuration for ``case``; ``model``: the trained folder."""
    return VlaConfig(
        model=ModelSource(path=model),
        engine=EngineConfig(name=engine, weights=case.weights),
        cache=CacheConfig(
            capacity_slots=case.slots, eviction="fifo" if case.policy == ORACLE else case.policy
        ),
        action=ActionConfig(
            names=("vx", "vy"),
            low=(-HAND_SPEED,) * 2,
            high=(HAND_SPEED,) * 2,
            kinds=("rate",) * 2,
            bins=255,
            decoding=case.decoding,
        ),
    )


class Expert:
    """Knows where the button is; what the loop and the physics allow at best."""

    def __init__(self, episode: Episode):
        self._episode = episode

    def act(self, picture: NDArray[np.uint8], cycle: int, decode: bool) -> NDArray[np.float64]:
        return self._episode.expert()

    def kept(self) -> NDArray[np.int64]:
        return np.zeros(0, np.int64)


def instruction_for(case: Case, plan: EpisodePlan) -> str:
    if case.trouble != "wrong_instruction":
        return plan.instruction
    if plan.cues:
        return "point to the red button"
    other = next(name for name in COLOURS if name in plan.colours and name != plan.colours[plan.target])
    return f"point to the {other} button"


def play_case(case: Case, number: int, config: VlaConfig, engine: Engine | None) -> Result:
    """Episode ``number`` of ``case``; ``engine`` is loaded, None for the expert."""
    plan = draw(case.task, FIRST_SEED + number, case.delay)
    episode = Episode(plan)
    conditions = Conditions(lag=case.lag, refused=case.refused, repeats=case.repeats, remember=case.remember)
    rng = np.random.default_rng([number, 7])
    if case.model == EXPERT or engine is None:
        return play(episode, Expert(episode), conditions, rng)
    stream = Stream(config, engine)
    policy = Oracle(plan) if case.policy == ORACLE else None
    stream.begin(plan, instruction_for(case, plan), policy)
    return play(episode, stream, conditions, rng, frozen=case.trouble == "frozen_camera")


def key_of(case: Case) -> dict[str, Any]:
    return asdict(case)
