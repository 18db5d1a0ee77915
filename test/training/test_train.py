# SPDX-License-Identifier: Apache-2.0
"""The training program: it learns, it can go on from a checkpoint, and its export is what the node loads."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs PyTorch")

from vla_edge_ros.config import ModelSource, VlaConfig  # noqa: E402
from vla_edge_ros.model.prompt import prompt_tokens  # noqa: E402
from vla_edge_ros.sequence import Decoding  # noqa: E402
from vla_edge_ros.training.batches import make_batch  # noqa: E402
from vla_edge_ros.training.instructions import token_ids  # noqa: E402
from vla_edge_ros.training.policy import new_network  # noqa: E402
from vla_edge_ros.training.stages import STAGES  # noqa: E402
from vla_edge_ros.training.train import Trainer  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("decoding", list(Decoding))
def test_a_batch_that_is_repeated_is_learnt(decoding):
    torch.manual_seed(0)
    stage = replace(STAGES["short"], episodes=1, frames=4)
    trainer = Trainer(new_network(decoding), stage, "cpu")
    batch = make_batch(stage, np.random.default_rng(0))
    losses = [trainer.step(batch)[0] for _ in range(30)]
    assert losses[-1] < 0.8 * losses[0]


def run(module: str, *arguments: str) -> str:
    command = [sys.executable, "-m", f"vla_edge_ros.training.{module}", *arguments]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_train_resume_and_export_from_the_command_line(tmp_path):
    first, second = str(tmp_path / "first.pt"), str(tmp_path / "second.pt")
    quick = ("--stages", "frame", "--minutes", "0.02", "--device", "cpu")
    assert "velocity error" in run("train", "--out", first, *quick)
    run("train", "--out", second, "--resume", first, *quick)
    folder = tmp_path / "model"
    assert str(folder) in run("export", second, str(folder))
    assert (folder / "model.safetensors").stat().st_size < 3e6
    config = VlaConfig(model=ModelSource(path=str(folder)))
    pinned, suffix = prompt_tokens("point to the blue button", config)
    assert pinned.tolist() == token_ids("point to the blue button") and suffix == ()
