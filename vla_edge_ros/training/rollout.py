# SPDX-License-Identifier: Apache-2.0
"""Training episodes: pictures of a hand that errs, with what the expert would do at each of them.

A policy that only ever saw the expert's own path never learns to come back to it, so hands start near the
target, are pulled to decoys, shake, rest, or wander from place to place all along. Cycles are skipped at
random, as admission refuses them: a refused frame is never seen, so an episode of a long delay is as valid,
and as cheap, as a short one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.imaging import resize_rgb
from vla_edge_ros.tabletop.arm import HAND_SPEED, joints_for
from vla_edge_ros.tabletop.camera import Camera
from vla_edge_ros.tabletop.expert import SLOW_WITHIN
from vla_edge_ros.tabletop.scene import CONTROL_HZ, HOVER_HEIGHT, WORK_AREA, SceneState
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
    ``spots``: ``[t, 2, 2]`` where the picture shows hand and target, column and row in pixels of the model's
    picture; NaN where it does not show which button is the target.
    """

    instruction: str
    recalls: bool  # whether a cue, and no colour, says which button is the target
    pixels: NDArray[np.uint8]  # [t, height, width, 3]
    velocity: NDArray[np.float32]
    hand: NDArray[np.float32]
    target: NDArray[np.float32]
    cue: NDArray[np.int64]
    lit: NDArray[np.int64]
    cycles: NDArray[np.int64]
    spots: NDArray[np.float32]


def make_rollout(task: str, rng: np.random.Generator, frames: int, longest_delay: int) -> Rollout:
    """``frames`` of an episode of ``task``, of a training seed and a delay of up to ``longest_delay``."""
    plan = draw(task, int(rng.integers(LAST_TRAINING_SEED + 1)), int(rng.integers(longest_delay + 1)))
    moving = int(rng.integers(min(20, frames), max(21, frames)))  # cycles behind the brake's release
    last = plan.go + moving
    cycles = _seen_cycles(plan, rng, last, frames)
    hands = _hand_path(plan, rng, int(cycles[-1]) + 1)[cycles]
    lit = np.array([_cue_at(plan, int(cycle)) for cycle in cycles])
    cue = np.maximum.accumulate(lit)
    objects = np.stack([plan.objects_at(int(cycle)) for cycle in cycles])
    buttons = np.array([entry.button for entry in plan.cues] or [plan.target])
    chosen = np.where(cue >= 0, buttons[cue], plan.target)
    target = objects[np.arange(frames), chosen]
    pictures = [_picture(plan, int(c), hand, rng) for c, hand in zip(cycles, hands, strict=True)]
    velocity = np.asarray(plan.expert(hands, target)) / HAND_SPEED
    shown = np.where((lit >= 0)[:, None] | (not plan.cues), target, np.nan)
    heights = np.array([HOVER_HEIGHT, 0.0])
    places = np.concatenate(
        [np.stack([hands, shown], 1), np.broadcast_to(heights[:, None], (frames, 2, 1))], -1
    )
    spots = _CAMERA.project(places) * (MODEL_WIDTH / _CAMERA.width)
    return Rollout(
        instruction=plan.instruction,
        recalls=bool(plan.cues),
        pixels=np.stack(pictures),
        velocity=velocity.astype(np.float32),
        hand=hands.astype(np.float32),
        target=target.astype(np.float32),
        cue=cue,
        lit=lit,
        cycles=cycles,
        spots=spots.astype(np.float32),
    )


def _cue_at(plan: EpisodePlan, cycle: int) -> int:
    return next((number for number, cue in enumerate(plan.cues) if cue.covers(cycle)), -1)


def _seen_cycles(plan: EpisodePlan, rng: np.random.Generator, last: int, frames: int) -> NDArray[np.int64]:
    """``frames`` rising cycles up to ``last``, at random; those of cues and behind ``go`` are likelier."""
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


def _hand_path(plan: EpisodePlan, rng: np.random.Generator, cycles: int) -> NDArray[np.float64]:
    """``[cycles, 2]`` m: where the hand is in each cycle.

    In plain floats: arrays of two numbers would take most of the time that making data takes.
    """
    high = WORK_AREA
    low = np.negative(high)
    hand = plan.start_hand
    if rng.random() < 0.25:
        hand = np.clip(plan.objects_at(0)[plan.target] + rng.normal(0, 0.03, 2), low, high)
    wanders = rng.random() < 0.6  # all along, braked or not
    rests = int(rng.integers(0, 20)) * int(rng.random() < 0.5)
    decoy = tuple(rng.uniform(low, high))
    decoy_until = plan.go + (int(rng.integers(3, 30)) if rng.random() < 0.4 else 0)
    draws = rng.random((cycles, 6)).tolist()
    shaking = rng.normal(0, 1, (cycles, 2)).tolist()
    target_path = plan.path[np.minimum(np.arange(cycles), len(plan.path) - 1)].tolist()
    x, y = float(hand[0]), float(hand[1])
    goal, speed = decoy, draws[0][5] * 1.2
    path = []
    for cycle, (draw_, shake, objects) in enumerate(zip(draws, shaking, target_path, strict=True)):
        path.append((x, y))
        target = objects[plan.target]
        if wanders:
            if draw_[0] < 0.07:
                free = ((draw_[1] * 2 - 1) * high[0], (draw_[2] * 2 - 1) * high[1])
                goal = target if draw_[3] < 0.3 else objects[int(draw_[1] * 3)] if draw_[3] < 0.65 else free
                speed = 1.2 * draw_[4] if draw_[5] < 0.85 else 0.0
            noise = 0.02
        elif cycle < plan.go + rests:
            continue
        else:
            goal, speed = (decoy if cycle < decoy_until else target), 1.0
            noise = 0.3 * HAND_SPEED if draw_[0] < 0.25 else 0.0
        way_x, way_y = goal[0] - x, goal[1] - y
        scale = speed * HAND_SPEED / max(math.hypot(way_x, way_y), SLOW_WITHIN)
        x = _within(x + _within(way_x * scale + noise * shake[0], HAND_SPEED) / CONTROL_HZ, high[0])
        y = _within(y + _within(way_y * scale + noise * shake[1], HAND_SPEED) / CONTROL_HZ, high[1])
    return np.array(path)


def _within(value: float, limit: float) -> float:
    return max(-limit, min(limit, value))


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
