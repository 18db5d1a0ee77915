# SPDX-License-Identifier: Apache-2.0
"""A policy drives the simulated arm step by step, without ROS and without a clock.

``Stream`` makes the calls of ``runtime/control_loop.py`` in its order: embed, prefill, decode, commit. What
the clock does to a robot is set by numbers here: actions that arrive some cycles late, and cycles that
admission refuses.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.engines.base import Engine
from vla_edge_ros.imaging import resize_rgb
from vla_edge_ros.kv_cache.cache import KvCache
from vla_edge_ros.kv_cache.descriptor import describe
from vla_edge_ros.kv_cache.eviction import EvictionPolicy, make_policy
from vla_edge_ros.kv_cache.frame_memory import FrameMemory
from vla_edge_ros.model.action_head import ActionHead
from vla_edge_ros.model.decoder_config import resolve
from vla_edge_ros.model.prompt import prompt_tokens
from vla_edge_ros.tabletop.episode import Episode
from vla_edge_ros.tabletop.scene import CONTROL_HZ
from vla_edge_ros.tabletop.tasks import EpisodePlan
from vla_edge_ros.units import NS_PER_MS, NS_PER_S

ORACLE = "oracle"


class Oracle:
    """Never forgets a frame of the cue that counts, else the oldest: the best that any policy can do.

    It reads the plan, which no policy on a robot can.
    """

    descriptor = "none"

    def __init__(self, plan: EpisodePlan):
        self._plan = plan

    def excess(self, memory: FrameMemory, room: int) -> int:
        return max(0, len(memory) - room)

    def choose(self, memory: FrameMemory) -> int:
        plain = (i for i, sequence in enumerate(memory.sequences) if not self._plan.cue_cycles(sequence - 1))
        return next(plain, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What the robot's timing does to the policy.

    ``lag``: cycles from a picture to the motion that answers it. ``refused``: share of cycles without a
    chunk; ``repeats``: how many of them in a row repeat the last action, the others stop. ``remember``:
    whether a refused cycle's frame is kept (embed, prefill and commit, no decode).
    ``decode_while_braked``: whether actions that a braked arm ignores are decoded; it changes no result.
    """

    lag: int = 0
    refused: float = 0.0
    repeats: int = 3
    remember: bool = False
    decode_while_braked: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """One episode. ``nearest``: whether the right button was nearest at the end. ``kept_at_go``,
    ``kept_at_end``: whether a frame of the counting cue was in the cache (False where there is no cue).
    ``repeated``: chunks behind ``go`` whose tokens were those of the chunk before; of ``compared``.
    """

    succeeded: bool
    nearest: bool
    cycles_to_touch: int
    kept_at_go: bool
    kept_at_end: bool
    repeated: int
    compared: int
    chunk_ms: tuple[float, ...]


class Driver(Protocol):
    """Something that answers pictures with velocities; ``Stream`` is one."""

    def act(self, picture: NDArray[np.uint8], cycle: int, decode: bool) -> NDArray[np.float64] | None:
        """Velocity ``[2]`` m/s for ``picture`` of ``cycle``; None where ``decode`` is false."""
        ...

    def kept(self) -> NDArray[np.int64]:
        """Cycles of the frames that are kept."""
        ...


class Stream:
    """An engine with its cache, as the reasoning node holds them, for one episode at a time."""

    def __init__(self, config: VlaConfig, engine: Engine):
        """``engine`` is loaded already."""
        self.config, self.engine = config, engine
        self._decoder = resolve(config.model)
        self._head = ActionHead(config.action, self._decoder.vocab_size)
        self.tokens: tuple[int, ...] = ()

    def begin(self, plan: EpisodePlan, instruction: str, policy: EvictionPolicy | None = None) -> None:
        """Forget everything and pin ``instruction``; ``policy``: in place of the configuration's."""
        self._policy = policy or make_policy(self.config.cache)
        self._cache = KvCache.for_model(self.config, self._policy, self._decoder.hidden_size)
        pinned, self._suffix = prompt_tokens(instruction, self.config)
        if pages := self._cache.set_prompt(len(pinned)):
            self.engine.write_prompt(pinned, pages)
        self.tokens = ()

    @property
    def room(self) -> int:
        return self._cache.room

    def kept(self) -> NDArray[np.int64]:
        return self._cache.memory.sequences - 1

    def act(self, picture: NDArray[np.uint8], cycle: int, decode: bool) -> NDArray[np.float64] | None:
        frame = self.config.frame
        pixels = resize_rgb(picture, frame.width, frame.height)
        with self._cache.begin(cycle + 1, (cycle + 1) * NS_PER_S // CONTROL_HZ) as chunk:
            vision = self.engine.embed_frame(pixels)
            self.engine.prefill(chunk.view, (), self._suffix)
            if decode:
                decoded = self.engine.decode(chunk.view, self.config.action.tokens, lambda step_ms: False)
                self.tokens = decoded.tokens
            chunk.commit(describe(self._policy.descriptor, pixels, vision.embedding))
        return self._head.decode(self.tokens) if decode else None


def play(
    episode: Episode,
    driver: Driver,
    conditions: Conditions,
    rng: np.random.Generator,
    *,
    frozen: bool = False,
) -> Result:
    """``episode`` to its end. ``rng`` draws the refused cycles; ``frozen``: the first picture for ever."""
    plan = episode.plan
    still = np.zeros(2)
    waiting = [still] * conditions.lag
    action, misses, kept_at_go = still, 0, False
    last_tokens: tuple[int, ...] = ()
    repeated = compared = 0
    chunk_ms = []
    picture = episode.picture()
    while not episode.ended:
        cycle = int(episode.cycle)
        if cycle == plan.go:
            kept_at_go = _has_cue(plan, driver)
        if rng.random() < conditions.refused:
            misses += 1
            if conditions.remember:
                driver.act(picture, cycle, False)
            if misses > conditions.repeats:
                action = still
        else:
            misses = 0
            decode = conditions.decode_while_braked or cycle + conditions.lag >= plan.go
            start_ns = time.perf_counter_ns()
            answer = driver.act(picture, cycle, decode)
            chunk_ms.append((time.perf_counter_ns() - start_ns) / NS_PER_MS)
            action = still if answer is None else answer
            tokens = getattr(driver, "tokens", ())
            if cycle >= plan.go and tokens:
                if last_tokens:
                    compared, repeated = compared + 1, repeated + (tokens == last_tokens)
                last_tokens = tokens
        waiting.append(action)
        episode.step(waiting.pop(0))
        if not frozen:
            picture = episode.picture()
    distances = np.linalg.norm(plan.objects_at(episode.cycle) - episode.hand_xy, axis=-1)
    return Result(
        succeeded=episode.succeeded,
        nearest=int(distances.argmin()) == plan.target,
        cycles_to_touch=int(episode.cycle) - plan.go,
        kept_at_go=kept_at_go,
        kept_at_end=_has_cue(plan, driver),
        repeated=repeated,
        compared=compared,
        chunk_ms=tuple(chunk_ms),
    )


def _has_cue(plan: EpisodePlan, driver: Driver) -> bool:
    return any(plan.cue_cycles(int(cycle)) for cycle in driver.kept())
