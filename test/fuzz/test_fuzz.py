# SPDX-License-Identifier: Apache-2.0
"""A short run of every target, and the harness itself: it must see what it is there to see."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pool
import pytest
from byte_mutator import mutate, shrink
from hypothesis import given
from hypothesis import strategies as st
from run import TARGETS
from tree_mutator import ODD_VALUES, mutate_tree

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.errors import ConfigError, WeightsError
from vla_edge_ros.model.decoder_config import DecoderConfig, from_hf_config
from vla_edge_ros.ros.parameter_tree import build, leaves

CASES = {"images": 400, "bags": 60, "compressed": 100, "footage": 50, "models": 80, "parameters": 40}
WITH_ROS = ("compressed", "images", "parameters")
BROKEN = """
import os, signal
def make(random):
    return b"good"
def check(data, folder):
    if data == b"segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    if data == b"hang":
        while True:
            pass
    if data == b"memory":
        bytearray(16 << 30)
    if data == b"exit":
        os._exit(3)
    assert b"wrong" not in data, "a wrong result"
    return "good"
"""
SIZES = {
    "model_type": "llama",
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "vocab_size": 600,
    "rope_theta": 10000.0,
    "rope_scaling": {"rope_type": "default"},
    "layer_types": ["full_attention"],
    "tie_word_embeddings": False,
}


@pytest.mark.parametrize(
    "target",
    [pytest.param(name, marks=[pytest.mark.ros] * (name in WITH_ROS)) for name in TARGETS],
)
def test_a_short_run_finds_nothing(target, tmp_path):
    """``run.py --minutes`` goes on where this ends."""
    runner = [sys.executable, str(Path(__file__).with_name("run.py")), "--save", str(tmp_path)]
    ran = subprocess.run(
        [*runner, "--target", target, "--cases", str(CASES[target])],
        capture_output=True,
        text=True,
        timeout=600,
    )
    saved = "\n".join(path.read_text() for path in tmp_path.glob("*.txt"))
    assert ran.returncode == 0 and "0 findings" in ran.stdout, f"{ran.stdout}\n{ran.stderr}\n{saved}"
    assert " good" in ran.stdout and " refused" in ran.stdout, ran.stdout


@pytest.mark.parametrize(
    ("data", "signature"),
    [
        ("wrong", "AssertionError in target_broken.py:check: a wrong result"),
        ("segfault", "broken ends by SIGSEGV"),
        ("exit", "broken ends by exit code 3"),
        ("hang", "hang of broken"),
        ("memory", "MemoryError in target_broken.py:check: "),
    ],
)
def test_the_harness_survives_and_names_what_an_input_does(data, signature, tmp_path, monkeypatch):
    (tmp_path / "target_broken.py").write_text(BROKEN)
    (tmp_path / "input").write_text(data)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{':'.join(filter(None, sys.path))}")
    monkeypatch.setattr(pool, "CASE_CPU_S", 0.5)
    worker = pool.Worker("broken")
    try:
        result = worker.run_file(tmp_path / "input")
        assert (result["verdict"], result["signature"]) == ("finding", signature), result
        assert worker.run_seed("1")["verdict"] == "good", "the next input finds a worker"
    finally:
        worker.close()


@given(st.binary(min_size=1, max_size=200), st.integers(0, 2**32))
def test_damage_is_bounded_and_the_same_for_a_seed(data, seed):
    damaged = mutate(data, Random(seed))
    assert damaged == mutate(data, Random(seed))
    assert len(damaged) <= 2 * len(data) + 8192


def test_an_input_is_shrunk_to_what_makes_it_fail():
    data = bytes(range(100)) + b"bug" + bytes(100)
    assert shrink(data, lambda smaller: b"bug" in smaller) == b"bug"


@given(st.randoms(use_true_random=False))
def test_any_config_json_is_read_or_refused(random):
    """In this process and by hypothesis, which shrinks what fails to the fewest changes."""
    try:
        config = from_hf_config(mutate_tree(SIZES, random) or {})
    except WeightsError as refusal:
        assert len(str(refusal).splitlines()) == 1
    else:
        assert isinstance(config, DecoderConfig) and config.hidden_size > 0 and config.rope_theta > 0


@given(st.randoms(use_true_random=False))
def test_any_parameters_are_taken_or_refused(random):
    known = list(leaves(VlaConfig))
    values = {leaf.name: random.choice((*ODD_VALUES, leaf.default)) for leaf in random.sample(known, 3)}
    try:
        build(VlaConfig, values)
    except ConfigError as refusal:
        assert len(str(refusal).splitlines()) == 1
