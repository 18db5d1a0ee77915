# SPDX-License-Identifier: Apache-2.0
"""Every parameter of the simulated robot's node, in the form of ``vla_edge_ros.config``."""

from __future__ import annotations

from dataclasses import dataclass

from vla_edge_ros.config import check_fields, param
from vla_edge_ros.errors import ConfigError
from vla_edge_ros.tabletop.task_names import TASKS, is_file
from vla_edge_ros.units import NS_PER_S

CAMERA_RATES_HZ = (30, 60)  # the rate of control, and twice that
# The trained policy's episodes are of seeds below this one.
FIRST_SEED = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TabletopConfig:
    """Which episodes are played, and how."""

    camera_hz: int = param(60, "images and steps of physics a second: 60, or 30 for a machine without a GPU")
    frame_id: str = param("camera", "frame_id of the images")
    tasks: tuple[str, ...] = param(
        ("point", "recall"),
        f"tasks that take turns: {', '.join(TASKS)}, or the path of a Python file with one",
    )
    delays: tuple[int, ...] = param(
        (0, 90),
        "of each task: cycles of 1/30 s from the last cue, or the start, to the brake's release",
        low=0,
    )
    first_seed: int = param(FIRST_SEED, "seed of the first episode; the next one has the next seed", low=0)
    episodes: int = param(0, "how many are played before the node ends; 0: no end", low=0)
    physics: bool = param(True, "MuJoCo moves the arm; false: it moves exactly as it is told, without MuJoCo")
    action_timeout_ms: float = param(
        200.0, "the arm stops so long after the last action, whatever that action says", low=1.0
    )
    reasoner: str = param(
        "vla_reasoner",
        "node that must have taken an episode's instruction before the episode begins; empty: none is asked",
    )
    idle_instruction: str = param(
        "stand by", "given between two episodes, so that each one begins with an instruction that is new"
    )
    results: str = param("", "file that gets a line of JSON for each episode that ends; empty: none")
    film: str = param("", "animation (GIF) of all episodes, written at the end; empty: none")

    def __post_init__(self) -> None:
        check_fields("", self)
        if self.camera_hz not in CAMERA_RATES_HZ:
            raise ConfigError(f"camera_hz must be one of 30, 60, got {self.camera_hz}")
        if not self.tasks:
            raise ConfigError("tasks must name at least one task, got none")
        for task in self.tasks:
            if task not in TASKS and not is_file(task):
                raise ConfigError(f"tasks must be one of {', '.join(TASKS)}, or a file *.py, got {task!r}")
        if len(self.delays) != len(self.tasks):
            raise ConfigError(
                f"delays must have one number a task, got {len(self.delays)} for {len(self.tasks)} tasks"
            )

    @property
    def period_ns(self) -> int:
        return round(NS_PER_S / self.camera_hz)

    def episode(self, number: int) -> tuple[str, int, int]:
        """Task, seed and delay of episode ``number``, from 0."""
        turn = number % len(self.tasks)
        return self.tasks[turn], self.first_seed + number, self.delays[turn]
