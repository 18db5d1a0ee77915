# SPDX-License-Identifier: Apache-2.0
"""``python -m vla_edge_ros.training.train``: train the policy of the simulated table, stage by stage.

Each stage has its own number of kept frames: the last one that of the cache that the policy will run with,
since a policy fails at lengths that it was not trained at. Progress is one line every few seconds; a
checkpoint is written after each stage and every minute.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from pickle import UnpicklingError

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from vla_edge_ros.console import console_program
from vla_edge_ros.errors import ConfigError
from vla_edge_ros.sequence import Decoding
from vla_edge_ros.tabletop.task_names import is_file
from vla_edge_ros.training.batches import Batch, BatchSource, Stage
from vla_edge_ros.training.export import parameters_of
from vla_edge_ros.training.network import PolicyNetwork
from vla_edge_ros.training.policy import new_network
from vla_edge_ros.training.stages import STAGES, STAGES_1024
from vla_edge_ros.training.step import TrainingStep

SECONDS_BETWEEN_LINES = 10.0
SECONDS_BETWEEN_CHECKPOINTS = 60.0
WARM_UP_STEPS = 100


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="checkpoint to write (.pt)")
    parser.add_argument("--stages", default=",".join(STAGES_1024), help=f"of {', '.join(STAGES)}, in order")
    parser.add_argument("--resume", type=Path, help="checkpoint (.pt) or model folder to go on from")
    parser.add_argument("--task", help="Python file with a task of your own (tabletop/own_task.py)")
    parser.add_argument("--task-share", type=float, default=0.5, help="of the episodes that play --task")
    parser.add_argument("--minutes", type=float, help="of each stage, in place of its own")
    parser.add_argument("--episodes", type=int, help="of each batch, in place of each stage's own")
    parser.add_argument("--learning-rate", type=float, help="highest, in place of each stage's own")
    parser.add_argument("--decoding", choices=[entry.value for entry in Decoding], default="parallel")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--workers", type=int, default=1, help="processes that make data")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


@console_program
def main() -> None:
    options = arguments()
    if not 0 < options.task_share <= 1:
        raise ConfigError(f"--task-share must be above 0 and at most 1, got {options.task_share}")
    if options.task and not is_file(options.task):
        raise ConfigError(f"--task must be a Python file, *.py, got {options.task!r}")
    unknown = [name for name in options.stages.split(",") if name not in STAGES]
    if unknown:
        raise ConfigError(f"--stages must be of {', '.join(STAGES)}, got {', '.join(unknown)}")
    torch.manual_seed(options.seed)
    network = new_network(Decoding(options.decoding)).to(options.device)
    if options.resume:
        load(network, options.resume)
    size = sum(parameter.numel() for parameter in network.parameters())
    print(f"{size / 1e6:.2f} M parameters, {options.decoding} decoding, on {options.device}", flush=True)
    for number, name in enumerate(options.stages.split(",")):
        stage = STAGES[name]
        if options.minutes:
            stage = replace(stage, minutes=options.minutes)
        if options.episodes:
            stage = replace(stage, episodes=options.episodes)
        if options.learning_rate:
            stage = replace(stage, learning_rate=options.learning_rate)
        if options.task:
            others = {task: share * (1 - options.task_share) for task, share in stage.tasks.items()}
            stage = replace(stage, tasks={options.task: options.task_share, **others})
        source = BatchSource(stage, options.seed * 1000 + number, options.workers)
        try:
            Trainer(network, stage, options.device).run(source, options.out)
        finally:
            source.close()


def load(network: PolicyNetwork, path: Path) -> None:
    """Parameters of a checkpoint, or of an exported model folder, which has none for training alone.

    Raises ``ConfigError`` where ``path`` is neither.
    """
    if path.is_dir():
        named = parameters_of(network)
        try:
            stored = load_file(path / "model.safetensors")
            with torch.no_grad():
                for name, parameter in named.items():
                    parameter.copy_(stored[name])
        except (OSError, KeyError, RuntimeError, SafetensorError) as error:
            raise ConfigError(
                f"--resume {path}: expected a folder that export has written: {error}"
            ) from error
        return
    try:
        network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True), strict=False)
    except (OSError, RuntimeError, UnpicklingError) as error:
        raise ConfigError(f"--resume {path}: expected a checkpoint of this program: {error}") from error


class Trainer:
    """One stage: AdamW under a warm-up and a cosine over the stage's minutes."""

    def __init__(self, network: PolicyNetwork, stage: Stage, device: str):
        self.network, self.stage = network, stage
        self._step = TrainingStep(network, stage.learning_rate, device)
        self._recent: deque[Tensor] = deque(maxlen=200)

    def run(self, source: BatchSource, out: Path) -> None:
        stage, start, step = self.stage, time.monotonic(), 0
        next_line, next_checkpoint = start + SECONDS_BETWEEN_LINES, start + SECONDS_BETWEEN_CHECKPOINTS
        print(f"stage {stage.name}: {stage}", flush=True)
        while (done := (time.monotonic() - start) / 60 / stage.minutes) < 1:
            warm = min(1.0, (step + 1) / WARM_UP_STEPS)
            cosine = 0.02 + 0.98 * (1 + math.cos(math.pi * done)) / 2
            self._step.set_learning_rate(stage.learning_rate * warm * cosine)
            self._recent.append(self._step(source.next()))
            step += 1
            now = time.monotonic()
            if now >= next_line:
                next_line = now + SECONDS_BETWEEN_LINES
                print(self._line(step, now - start), flush=True)
            if now >= next_checkpoint:
                next_checkpoint = now + SECONDS_BETWEEN_CHECKPOINTS
                self._save(out)
        print(self._line(step, time.monotonic() - start), flush=True)
        self._save(out)

    def step(self, batch: Batch) -> list[float]:
        """One step at the learning rate as it is: loss, and the velocity's mean error (1 is full speed) in
        view and from memory, NaN where the batch has no such frame."""
        return _means([self._step(batch)])

    def _line(self, step: int, seconds: float) -> str:
        loss, now, remembered = _means(self._recent)
        frames = step * self.stage.frames * self.stage.episodes
        return (
            f"{self.stage.name} step {step} loss {loss:.3f} velocity error {now:.3f} in view, "
            f"{remembered:.3f} from memory, {frames / seconds:.0f} frames/s, {seconds:.0f} s"
        )

    def _save(self, out: Path) -> None:
        state = {name: tensor.cpu() for name, tensor in self.network.state_dict().items()}
        part = out.with_suffix(".part")
        torch.save(state, part)
        part.replace(out)


def _means(figures: Sequence[Tensor] | deque[Tensor]) -> list[float]:
    """Of ``TrainingStep``'s figures: mean loss, mean error in view and from memory, over all frames."""
    loss, in_view, views, from_memory, memories = torch.stack(list(figures)).mean(0).tolist()
    return [loss, in_view / views if views else math.nan, from_memory / memories if memories else math.nan]


if __name__ == "__main__":
    main()
