# SPDX-License-Identifier: Apache-2.0
"""The trained weights that are shipped: they load, read the instruction, and move the hand the right way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vla_edge_ros.config import CacheConfig, VlaConfig
from vla_edge_ros.engines.load import load_engine
from vla_edge_ros.kv_cache.eviction import make_policy
from vla_edge_ros.model.caveats import caveats
from vla_edge_ros.model.prompt import prompt_tokens
from vla_edge_ros.ros.parameter_file import parameters_for
from vla_edge_ros.ros.parameter_tree import build
from vla_edge_ros.tabletop.episode import Episode
from vla_edge_ros.tabletop.lockstep import Stream
from vla_edge_ros.tabletop.tasks import draw
from vla_edge_ros.training.instructions import token_ids

ROOT = Path(__file__).resolve().parents[2]
FIRST_SEED = 1_000_000  # training draws from those below


@pytest.fixture(scope="module")
def config():
    return build(VlaConfig, parameters_for(ROOT / "config/tabletop.yaml", "/vla/reasoner"))


@pytest.fixture(scope="module")
def stream(config):
    engine = load_engine(config)
    engine.load()
    yield Stream(config, engine)
    engine.close()


def test_nothing_is_to_be_told_of_it(config):
    assert caveats(config) == ()


@pytest.mark.parametrize("instruction", ["point to the yellow button", "touch the last lit button"])
def test_the_words_alone_are_pinned(config, instruction):
    pinned, suffix = prompt_tokens(instruction, config)
    assert pinned.tolist() == token_ids(instruction) and suffix == ()
    assert 0 not in pinned, "no word is unknown"


def first_velocity(stream, seed, instruction=None):
    """``(velocity, the way to the target)`` at the first picture of a ``point`` episode."""
    plan = draw("point", FIRST_SEED + seed)
    episode = Episode(plan, physics=False)
    stream.begin(plan, instruction or plan.instruction)
    return stream.act(episode.picture(), 0, True), episode.expert()


def test_the_first_motion_is_towards_the_named_button(stream):
    """Of 40 scenes; a motion that does not look at the picture is within 45 degrees in a quarter of them."""
    towards = []
    for seed in range(40):
        velocity, wanted = first_velocity(stream, seed)
        cosine = velocity @ wanted / max(1e-9, np.linalg.norm(velocity) * np.linalg.norm(wanted))
        towards.append(cosine > np.cos(np.pi / 4))
    assert np.mean(towards) >= 0.85


def test_another_name_is_another_motion(stream):
    changed = []
    for seed in range(10):
        plan = draw("point", FIRST_SEED + seed)
        other = next(colour for i, colour in enumerate(plan.colours) if i != plan.target)
        ours, _ = first_velocity(stream, seed)
        theirs, _ = first_velocity(stream, seed, f"point to the {other} button")
        changed.append(not np.allclose(ours, theirs))
    assert np.mean(changed) >= 0.9


@pytest.mark.parametrize(("eviction", "least", "most"), [("novelty", 4, 4), ("fifo", 0, 2)])
def test_what_was_lit_is_touched_after_a_delay_that_only_a_memory_survives(stream, eviction, least, most):
    """Five times the frames that the cache holds: without the cue a third is guessed at best."""
    touched = 0
    for seed in range(4):
        plan = draw("recall", FIRST_SEED + seed, 140)
        episode = Episode(plan, physics=False)
        stream.begin(plan, plan.instruction, make_policy(CacheConfig(eviction=eviction)))
        while not episode.ended:
            velocity = stream.act(episode.picture(), int(episode.cycle), not episode.braked)
            episode.step(np.zeros(2) if velocity is None else velocity)
        touched += episode.succeeded
    assert least <= touched <= most
