# SPDX-License-Identifier: Apache-2.0
"""What came of an episode that was played in real time: a line of text, a line of JSON, and back."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from vla_edge_ros.errors import SourceError
from vla_edge_ros.tabletop.episode import Episode
from vla_edge_ros.tabletop.scene import CONTROL_HZ


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeResult:
    """Cycles are periods of 1/30 s. ``touched``: the button that was touched, None: none in time."""

    episode: int
    task: str
    seed: int
    delay: int
    instruction: str
    succeeded: bool
    touched: int | None
    target: int
    cycles: float  # in all
    cycles_to_touch: float  # from the brake's release to the end
    actions: int  # accepted while the episode went on
    refused_actions: int
    skipped: int  # pictures that the machine was too late for

    @property
    def text(self) -> str:
        """For a terminal."""
        outcome = "touched no button in time"
        if self.touched is not None:
            outcome = "touched the right button" if self.succeeded else "touched a wrong button"
        seconds = self.cycles_to_touch / CONTROL_HZ
        return (
            f"episode {self.episode:3d} | {self.task:12s} | {self.instruction} | "
            f"{outcome}, {seconds:.1f} s after the brake opened"
        )


def result_of(episode: Episode, number: int, actions: int, refused: int, skipped: int) -> EpisodeResult:
    plan = episode.plan
    return EpisodeResult(
        episode=number,
        task=plan.task,
        seed=plan.seed,
        delay=plan.delay,
        instruction=plan.instruction,
        succeeded=episode.succeeded,
        touched=episode.touched,
        target=plan.target,
        cycles=episode.cycle,
        cycles_to_touch=episode.cycle - plan.go,
        actions=actions,
        refused_actions=refused,
        skipped=skipped,
    )


def append_result(path: Path, result: EpisodeResult) -> None:
    """A line of JSON at the end of ``path``. Raises ``OSError``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(result)) + "\n")


def read_results(path: Path) -> list[EpisodeResult]:
    """Of all whole lines; none where there is no file yet. Raises ``SourceError`` for a line of others."""
    if not path.is_file():
        return []
    whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
    try:
        return [EpisodeResult(**json.loads(line)) for line in whole.splitlines()]
    except (ValueError, TypeError) as error:
        raise SourceError(f"{path}: expected a line of JSON an episode, got: {error}") from error
