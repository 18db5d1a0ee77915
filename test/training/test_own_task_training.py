# SPDX-License-Identifier: Apache-2.0
"""A task from a file is trained into a policy that has been exported, and played."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs PyTorch")

from vla_edge_ros.config import ModelSource, VlaConfig  # noqa: E402
from vla_edge_ros.errors import ConfigError  # noqa: E402
from vla_edge_ros.model.prompt import prompt_tokens  # noqa: E402
from vla_edge_ros.sequence import Decoding  # noqa: E402
from vla_edge_ros.training.batches import make_batch  # noqa: E402
from vla_edge_ros.training.export import export, parameters_of  # noqa: E402
from vla_edge_ros.training.instructions import WORD_IDS, word_ids  # noqa: E402
from vla_edge_ros.training.policy import new_network  # noqa: E402
from vla_edge_ros.training.stages import STAGES  # noqa: E402
from vla_edge_ros.training.train import load  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
TASK = "INSTRUCTION = 'touch the middle button'\ndef target(plan): return 1\n"


@pytest.fixture
def file(tmp_path) -> str:
    path = tmp_path / "own.py"
    path.write_text(TASK)
    return str(path)


def run(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"vla_edge_ros.{module}", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_new_words_come_behind_those_that_are_known(file):
    words = word_ids(["point", file])
    assert words["middle"] == len(WORD_IDS) and len(words) == len(WORD_IDS) + 1
    assert {word: words[word] for word in WORD_IDS} == WORD_IDS


def test_a_batch_has_prompts_of_one_length_and_the_shares_hold(file):
    stage = replace(STAGES["frame"], episodes=2, frames=2, tasks={file: 0.5, "point": 0.5})
    rng = np.random.default_rng(0)
    lengths = [make_batch(stage, rng).prompt.shape[1] for _ in range(60)]
    assert set(lengths) == {4, 5} and 18 <= lengths.count(4) <= 42  # 0.001 of the binomial on either side
    alone = replace(stage, tasks={file: 1.0})
    assert (make_batch(alone, rng).prompt == [5, 3, len(WORD_IDS), 4]).all()


def test_an_exported_folder_can_be_trained_further(tmp_path):
    torch.manual_seed(0)
    first, second = new_network(Decoding.PARALLEL), new_network(Decoding.PARALLEL)
    export(first, tmp_path)
    load(second, tmp_path)
    for name, parameter in parameters_of(second).items():
        expected = parameters_of(first)[name].to(torch.bfloat16).float()
        assert torch.equal(parameter.detach(), expected.detach()), name


def test_what_cannot_be_resumed_is_named(tmp_path):
    network = new_network(Decoding.PARALLEL)
    (tmp_path / "text.pt").write_text("no checkpoint")
    for path in (tmp_path, tmp_path / "nowhere.pt", tmp_path / "text.pt"):
        with pytest.raises(ConfigError, match="--resume .*expected"):
            load(network, path)


def test_from_the_file_to_episodes_that_are_played(file, tmp_path):
    pytest.importorskip("mujoco", reason="the study plays with physics")
    folder, checkpoint = tmp_path / "model", str(tmp_path / "own.pt")
    export(new_network(Decoding.PARALLEL), folder)
    quick = ("--stages", "frame", "--minutes", "0.02", "--device", "cpu", "--episodes", "2")
    ran = run("training.train", "--out", checkpoint, "--task", file, "--resume", str(folder), *quick)
    assert ran.returncode == 0 and "own.py" in ran.stdout, ran.stderr
    ran = run("training.export", checkpoint, str(folder), "--task", file)
    assert ran.returncode == 0, ran.stderr
    config = VlaConfig(model=ModelSource(path=str(folder)))
    assert prompt_tokens("touch the middle button", config)[0].tolist() == [5, 3, len(WORD_IDS), 4]
    play = ("--model", str(folder), "--task", file, "--episodes", "2", "--workers", "1")
    ran = run("bench.studies.closed_loop", *play)
    assert ran.returncode == 0 and "own.py novelty" in ran.stdout, ran.stderr


@pytest.mark.parametrize(("option", "value"), [("--task", "point"), ("--task-share", "0")])
def test_options_that_make_no_sense_are_refused(option, value, tmp_path):
    ran = run("training.train", "--out", str(tmp_path / "x.pt"), "--device", "cpu", option, value)
    assert ran.returncode != 0 and option in ran.stderr and "Traceback" not in ran.stderr
