# SPDX-License-Identifier: Apache-2.0
"""Training episodes: pictures of a hand that errs, with what the expert would do at each of them.

A policy that only ever saw the expert's own path never learns to come back to it, so hands start near the
target, are pulled to decoys, shake, rest, or wander from place to place all along. Cycles are skipped at
random, as admission refuses them: a refused frame is never seen, so an episode of a long delay is as valid,
and as cheap, as a short one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.imaging import resize_rgb
from vla_edge_ros.tabletop.arm import HAND_SPEED, joints_for
from vla_edge_ros.tabletop.camera import Camera
from vla_edge_ros.tabletop.expert import expert_velocity
from vla_edge_ros.tabletop.scene import CONTROL_HZ, WORK_AREA, SceneState
from vla_edge_ros.tabletop.tasks import EpisodePlan, draw

MODEL_WIDTH, MODEL_HEIGHT = 128, 64
# Episodes of training; evaluation starts at a million.
LAST_TRAINING_SEED = 999_999

_CAMERA = Camera()


@dataclass(frozen=True, slots=True)
class Rollout:
    """One episode of ``t`` seen frames.

    ``velocity``: what the expert does, ``[t, 2]`` of full speed; ``hand``, ``target``: ``[t, 2]`` m. In a
    recall task the target is the button of the newest cue that was seen, ``cue`` ``[t]`` its number among the
    cues, -1 before any was seen; ``lit``: ``[t]`` the number of the cue that a frame shows, or -1.
    """

    instruction: str
    pixels: NDArray[np.uint8]  # [t, height, width, 3]
    velocity: NDArray[np.float32]
    hand: NDArray[np.float32]
    target: NDArray[np.float32]
    cue: NDArray[np.int64]
    lit: NDArray[np.int64]
    cycles: NDArray[np.int64]

    @property
    def recalls(self) -> bool:
        return bool((self.cue >= 0).any() or (self.lit >= 0).any()) or "lit" in self.instruction


def make_rollout(task: str, rng: np.random.Generator, frames: int, longest_delay: int) -> Rollout:
    """``frames`` of an episode of ``task``, of a training seed and a delay of up to ``longest_delay``."""
    plan = draw(task, int(rng.integers(LAST_TRAINING_SEED + 1)), int(rng.integers(longest_delay + 1)))
    moving = int(rng.integers(min(20, frames), max(21, frames)))  # cycles behind the brake's release
    last = plan.go + moving
    cycles = _seen_cycles(plan, rng, last, frames)
    hands = _hand_path(plan, rng, last)[cycles]
    lit = np.array([_cue_at(plan, int(cycle)) for cycle in cycles])
    cue = np.maximum.accumulate(lit)
    objects = np.stack([plan.objects_at(int(cycle)) for cycle in cycles])
    buttons = np.array([entry.button for entry in plan.cues] or [plan.target])
    chosen = np.where(cue >= 0, buttons[cue], plan.target)
    target = objects[np.arange(frames), chosen]
    pictures = [_picture(plan, int(c), hand, rng) for c, hand in zip(cycles, hands, strict=True)]
    velocity = expert_velocity(hands, target) / HAND_SPEED
    return Rollout(
        instruction=plan.instruction,
        pixels=np.stack(pictures),
        velocity=velocity.astype(np.float32),
        hand=hands.astype(np.float32),
        target=target.astype(np.float32),
        cue=cue,
        lit=lit,
        cycles=cycles,
    )


def _cue_at(plan: EpisodePlan, cycle: int) -> int:
    return next((number for number, cue in enumerate(plan.cues) if cue.covers(cycle)), -1)


def _seen_cycles(plan: EpisodePlan, rng: np.random.Generator, last: int, frames: int) -> NDArray[np.int64]:
    """``frames`` rising cycles up to ``last``: at random, but the cues and the time behind ``go`` are denser."""
    if not plan.cues and rng.random() < 0.5:
        start = int(rng.integers(max(1, last - frames + 1)))
        return np.arange(start, start + frames)
    weights = np.ones(max(last, frames))
    weights[plan.go :] = rng.choice([1.0, 3.0, 10.0])
    for cue in plan.cues:
        weights[cue.start : cue.end] = rng.choice([1.0, 5.0, 20.0])
    # Without replacement with these weights: the largest of exponential keys (Efraimidis, Spirakis, 2006).
    keys = rng.exponential(size=len(weights)) / weights
    return np.sort(np.argpartition(keys, frames - 1)[:frames])


def _hand_path(plan: EpisodePlan, rng: np.random.Generator, last: int) -> NDArray[np.float64]:
    """``[last + 1 or more, 2]`` m: where the hand is in each cycle."""
    cycles = max(last, 0) + 1 + 400
    low, high = np.negative(WORK_AREA), np.array(WORK_AREA)
    path = np.empty((cycles, 2))
    hand = plan.start_hand.copy()
    if rng.random() < 0.25:
        hand = np.clip(plan.objects_at(0)[plan.target] + rng.normal(0, 0.03, 2), low, high)
    wanders = rng.random() < 0.6  # all along, braked or not
    rests = int(rng.integers(0, 20)) * int(rng.random() < 0.5)
    decoy = rng.uniform(low, high)
    decoy_until = plan.go + (int(rng.integers(3, 30)) if rng.random() < 0.4 else 0)
    goal, speed = rng.uniform(low, high), rng.uniform(0, 1.2)
    for cycle in range(cycles):
        path[cycle] = hand
        objects = plan.objects_at(cycle)
        if wanders:
            if rng.random() < 0.07:
                pick = rng.random()
                target = objects[plan.target] if pick < 0.3 else objects[int(rng.integers(len(objects)))]
                goal = target if pick < 0.65 else rng.uniform(low, high)
                speed = rng.uniform(0, 1.2) * (rng.random() < 0.85)
            velocity = expert_velocity(hand, goal) * speed + rng.normal(0, 0.02, 2)
        elif cycle < plan.go + rests:
            continue
        else:
            velocity = expert_velocity(hand, decoy if cycle < decoy_until else objects[plan.target])
            if rng.random() < 0.25:
                velocity = velocity + rng.normal(0, 0.3 * HAND_SPEED, 2)
        velocity = np.clip(velocity, -HAND_SPEED, HAND_SPEED)
        hand = np.clip(hand + velocity / CONTROL_HZ, low, high)
    return path


def _picture(
    plan: EpisodePlan, cycle: int, hand: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.uint8]:
    state = SceneState(
        joints=joints_for(hand),
        objects=plan.objects_at(cycle),
        colours=plan.colours,
        lit=plan.lit(cycle),
        balls=plan.balls_at(cycle),
        gain=plan.gain(cycle),
    )
    return resize_rgb(_CAMERA.picture(state, rng), MODEL_WIDTH, MODEL_HEIGHT)
