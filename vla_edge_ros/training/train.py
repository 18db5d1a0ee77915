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
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vla_edge_ros.console import console_program
from vla_edge_ros.errors import ConfigError
from vla_edge_ros.sequence import Decoding
from vla_edge_ros.training.batches import Batch, BatchSource, Stage, patches_of
from vla_edge_ros.training.losses import Labels, action_ids, loss_of, velocity_of
from vla_edge_ros.training.network import Kept, Outputs, PolicyNetwork
from vla_edge_ros.training.policy import BINS, VOCABULARY, new_network
from vla_edge_ros.training.stages import STAGES

SECONDS_BETWEEN_LINES = 10.0
SECONDS_BETWEEN_CHECKPOINTS = 60.0
WARM_UP_STEPS = 100


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="checkpoint to write (.pt)")
    parser.add_argument("--stages", default=",".join(STAGES), help=f"of {', '.join(STAGES)}, in order")
    parser.add_argument("--resume", type=Path, help="checkpoint to go on from")
    parser.add_argument("--minutes", type=float, help="of each stage, in place of its own")
    parser.add_argument("--learning-rate", type=float, help="highest, in place of each stage's own")
    parser.add_argument("--decoding", choices=[entry.value for entry in Decoding], default="parallel")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--workers", type=int, default=1, help="processes that make data")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


@console_program
def main() -> None:
    options = arguments()
    unknown = [name for name in options.stages.split(",") if name not in STAGES]
    if unknown:
        raise ConfigError(f"--stages must be of {', '.join(STAGES)}, got {', '.join(unknown)}")
    torch.manual_seed(options.seed)
    network = new_network(Decoding(options.decoding)).to(options.device)
    if options.resume:
        network.load_state_dict(
            torch.load(options.resume, map_location=options.device, weights_only=True), strict=False
        )
    size = sum(parameter.numel() for parameter in network.parameters())
    print(f"{size / 1e6:.2f} M parameters, {options.decoding} decoding, on {options.device}", flush=True)
    for number, name in enumerate(options.stages.split(",")):
        stage = STAGES[name]
        if options.minutes:
            stage = replace(stage, minutes=options.minutes)
        if options.learning_rate:
            stage = replace(stage, learning_rate=options.learning_rate)
        source = BatchSource(stage, options.seed * 1000 + number, options.workers)
        try:
            Trainer(network, stage, options.device).run(source, options.out)
        finally:
            source.close()


class Trainer:
    """One stage: AdamW under a warm-up and a cosine over the stage's minutes."""

    def __init__(self, network: PolicyNetwork, stage: Stage, device: str):
        self.network, self.stage, self.device = network, stage, device
        self.optimizer = torch.optim.AdamW(
            network.parameters(), stage.learning_rate, betas=(0.9, 0.95), weight_decay=0.01
        )
        self._recent: deque[list[float]] = deque(maxlen=200)

    def run(self, source: BatchSource, out: Path) -> None:
        stage, start, step = self.stage, time.monotonic(), 0
        next_line, next_checkpoint = start + SECONDS_BETWEEN_LINES, start + SECONDS_BETWEEN_CHECKPOINTS
        print(f"stage {stage.name}: {stage}", flush=True)
        while (done := (time.monotonic() - start) / 60 / stage.minutes) < 1:
            warm = min(1.0, (step + 1) / WARM_UP_STEPS)
            for group in self.optimizer.param_groups:
                group["lr"] = stage.learning_rate * warm * (0.02 + 0.98 * (1 + math.cos(math.pi * done)) / 2)
            self._recent.append(self.step(source.next()))
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
        """One step: loss, and the velocity's mean error (1 is full speed) in view and from memory."""
        move = lambda array: torch.from_numpy(array).to(self.device, non_blocking=True)  # noqa: E731
        labels = Labels(
            move(batch.velocity),
            move(batch.positions),
            move(batch.weight),
            move(batch.known),
            move(batch.spots),
        )
        patches = patches_of(move(batch.pixels)).float() / 127.5 - 1
        ids = action_ids(labels.velocity, BINS, VOCABULARY)
        kept = Kept(move(batch.index), move(batch.count))
        with torch.autocast(self.device, torch.bfloat16, enabled=self.device != "cpu"):
            outputs: Outputs = self.network(move(batch.prompt), patches, ids, kept)
        loss = loss_of(outputs, labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        with torch.no_grad():
            error = (velocity_of(outputs.logits) - labels.velocity).norm(dim=-1)
            remembered = move(batch.recalls)
            now = (labels.known > 0) & ~remembered
        return [loss.item(), _mean_where(error, now), _mean_where(error, remembered)]

    def _line(self, step: int, seconds: float) -> str:
        loss, now, remembered = np.nanmean(np.array(self._recent), axis=0)
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


def _mean_where(values: Tensor, chosen: Tensor) -> float:
    return float(values[chosen].mean()) if bool(chosen.any()) else math.nan


if __name__ == "__main__":
    main()
