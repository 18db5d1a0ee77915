# SPDX-License-Identifier: Apache-2.0
"""The tasks, and every random choice of an episode, made before it begins.

The arm is braked until cycle ``go``; no picture says when that is. In the recall tasks all buttons are grey
and nothing but a lamp that was lit for some cycles, long before ``go``, says which one to touch. No cue is in
cycle 0: several eviction policies never forget the first frame, and would solve the task by that alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.tabletop import own_task
from vla_edge_ros.tabletop.expert import expert_velocity
from vla_edge_ros.tabletop.motion import BALL_EDGE, BUTTON_GAP, Ball, is_hidden, rolling, wandering
from vla_edge_ros.tabletop.scene import COLOURS, GREY, LARGEST_BALL_RADIUS, WORK_AREA
from vla_edge_ros.tabletop.task_names import TASKS, is_file

BUTTONS = 3
# An episode ends so many cycles after the brake opens, at the latest.
CYCLES_TO_ACT = 110

# Cycles, inclusive.
FIRST_CUE = (1, 39)
CUE_LENGTH = (3, 9)
BETWEEN_CUES = (5, 60)

BUTTON_SPEED = (0.06, 0.12)  # m/s
BALL_SPEED = (0.15, 0.6)  # m/s
BALL_RADIUS = (0.015, LARGEST_BALL_RADIUS)
CYCLES_BETWEEN_BALLS = 150
LAMP_DRIFT = 0.15  # at most, of the brightness
LAMP_CYCLES = 2 * np.pi * 25


@dataclass(frozen=True, slots=True)
class Cue:
    """The lamp of ``button`` is on in the cycles ``start`` .. ``end - 1``."""

    start: int
    end: int
    button: int

    def covers(self, cycle: float) -> bool:
        return self.start <= cycle < self.end


@dataclass(frozen=True, slots=True, eq=False)
class EpisodePlan:
    """One episode before it is played. Cycles count control periods from 0; fractions lie between two."""

    task: str
    seed: int
    delay: int
    colours: tuple[str, ...]  # k
    path: NDArray[np.float64]  # [n, k, 2] m: the buttons in cycle 0, 1, ...; they stay where the path ends
    target: int
    cues: tuple[Cue, ...]
    go: int  # the brake opens at the start of this cycle
    start_hand: NDArray[np.float64]  # [2] m
    balls: tuple[Ball, ...]
    lamp_drift: float
    lamp_phase: float  # rad
    own_instruction: str = ""  # of a task in a file
    expert: own_task.Expert = expert_velocity

    @property
    def instruction(self) -> str:
        if self.own_instruction:
            return self.own_instruction
        if self.cues:
            return "touch the last lit button"
        return f"point to the {self.colours[self.target]} button"

    @property
    def end(self) -> int:
        """The cycle before which the episode has ended, whatever happens."""
        return self.go + CYCLES_TO_ACT

    def lit(self, cycle: float) -> int | None:
        """Which button's lamp is on."""
        return next((cue.button for cue in self.cues if cue.covers(cycle)), None)

    def cue_cycles(self, cycle: float) -> bool:
        """Whether ``cycle`` shows the cue that counts: the last one."""
        return bool(self.cues) and self.cues[-1].covers(cycle)

    def objects_at(self, cycle: float) -> NDArray[np.float64]:
        """Centres of the buttons ``[k, 2]`` m."""
        before = min(int(cycle), len(self.path) - 1)
        after = min(before + 1, len(self.path) - 1)
        return self.path[before] + (cycle - int(cycle)) * (self.path[after] - self.path[before])

    def balls_at(self, cycle: float) -> NDArray[np.float64]:
        """Balls on the table, undisturbed ``[m, 4]`` m: x, y, z, radius."""
        return rolling(self.balls, cycle)

    def gain(self, cycle: float) -> float:
        """Brightness of the light, which drifts."""
        return 1.0 + self.lamp_drift * float(np.sin(self.lamp_phase + cycle * 2 * np.pi / LAMP_CYCLES))


def draw(task: str, seed: int, delay: int = 0) -> EpisodePlan:
    """Episode ``seed`` of ``task``; its brake opens ``delay`` cycles after the last cue, or after the start.

    The same arguments give the same episode; another ``delay`` changes nothing before ``go`` but the balls'
    number. ``task`` may be the path of a file (``own_task.py``), whose name the plan then bears. Raises
    ``ValueError`` for an unknown task or a number below zero, ``ConfigError`` for a file that is no task.
    """
    if is_file(task):
        own = own_task.load_own_task(task)
        plan = draw(own.base, seed, delay)
        return replace(
            plan,
            task=Path(task).stem,
            target=own_task.target_of(task, plan),
            own_instruction=own.instruction,
            expert=own.expert,
        )
    if task not in TASKS:
        raise ValueError(f"expected a task of {', '.join(TASKS)}, or a file of one, got {task!r}")
    if seed < 0 or delay < 0:
        raise ValueError(f"expected seed and delay of at least 0, got {seed} and {delay}")
    # Balls last from a generator of their own: how many there are depends on the delay.
    scene, disturbances = (np.random.default_rng([seed, TASKS.index(task), part]) for part in range(2))
    recalls = task.startswith("recall")
    target = int(scene.integers(BUTTONS))
    places, start_hand = _places(scene)
    colours = (GREY,) * BUTTONS if recalls else tuple(scene.permutation(list(COLOURS))[:BUTTONS].tolist())
    cues = _cues(scene, task, target) if recalls else ()
    go = (cues[-1].end if cues else 0) + delay
    path = places[None]
    if task == "point_moving":
        angle = scene.uniform(0, 2 * np.pi, BUTTONS)
        speed = scene.uniform(*BUTTON_SPEED, BUTTONS)[:, None]
        path = wandering(places, speed * np.stack([np.cos(angle), np.sin(angle)], -1), go + CYCLES_TO_ACT)
    for array in (path, start_hand):
        array.setflags(write=False)
    return EpisodePlan(
        task=task,
        seed=seed,
        delay=delay,
        colours=colours,
        path=path,
        target=target,
        cues=cues,
        go=go,
        start_hand=start_hand,
        lamp_drift=float(scene.uniform(-LAMP_DRIFT, LAMP_DRIFT)),
        lamp_phase=float(scene.uniform(0, 2 * np.pi)),
        balls=_balls(disturbances, go + CYCLES_TO_ACT),
    )


def _places(rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Buttons ``[k, 2]`` and a hand ``[2]`` that hides none; neither knows which one is the target."""
    low, high = np.negative(WORK_AREA), np.array(WORK_AREA)
    while True:
        objects, hand = rng.uniform(low, high, (BUTTONS, 2)), rng.uniform(low, high)
        apart = np.linalg.norm(objects[:, None] - objects, axis=-1) + BUTTON_GAP * np.eye(BUTTONS)
        if apart.min() >= BUTTON_GAP and not is_hidden(objects, hand).any():
            return objects, hand


def _cues(rng: np.random.Generator, task: str, target: int) -> tuple[Cue, ...]:
    """One cue, or two or three of which each lights another button than the one before."""
    buttons = [target]
    if task == "recall_last":
        for _ in range(int(rng.integers(1, 3))):
            others = [button for button in range(BUTTONS) if button != buttons[0]]
            buttons.insert(0, int(rng.choice(others)))
    cues: list[Cue] = []
    start = int(rng.integers(FIRST_CUE[0], FIRST_CUE[1] + 1))
    for button in buttons:
        end = start + int(rng.integers(CUE_LENGTH[0], CUE_LENGTH[1] + 1))
        cues.append(Cue(start, end, button))
        start = end + int(rng.integers(BETWEEN_CUES[0], BETWEEN_CUES[1] + 1))
    return tuple(cues)


def _balls(rng: np.random.Generator, cycles: int) -> tuple[Ball, ...]:
    balls = []
    start = int(rng.integers(CYCLES_BETWEEN_BALLS))
    while start < cycles:
        side = float(rng.choice((-1.0, 1.0)))
        speed, drift = float(rng.uniform(*BALL_SPEED)), float(rng.uniform(-0.1, 0.1))
        y, radius = float(rng.uniform(-WORK_AREA[1], WORK_AREA[1])), float(rng.uniform(*BALL_RADIUS))
        balls.append(Ball(start, side * BALL_EDGE, y, -side * speed, drift * speed, radius))
        start += int(rng.integers(CYCLES_BETWEEN_BALLS // 2, CYCLES_BETWEEN_BALLS * 3 // 2 + 1))
    return tuple(balls)
