# SPDX-License-Identifier: Apache-2.0
"""Lockstep: what the loop does with pictures, lag and refusals, with drivers that know the answer."""

from __future__ import annotations

import numpy as np
import pytest

from vla_edge_ros.bench.studies.closed_loop_rows import Expert
from vla_edge_ros.config import ActionConfig, CacheConfig, EngineConfig, ModelSource, VlaConfig
from vla_edge_ros.engines.load import load_engine
from vla_edge_ros.kv_cache.frame_memory import FrameMemory
from vla_edge_ros.tabletop.episode import Episode
from vla_edge_ros.tabletop.lockstep import Conditions, Oracle, Stream, play
from vla_edge_ros.tabletop.tasks import draw


class Noting:
    """Answers with the cycle's number as speed to the right, and notes what it was asked."""

    def __init__(self):
        self.asked: list[tuple[int, bool]] = []
        self.pictures: list[np.ndarray] = []

    def act(self, picture, cycle, decode):
        self.asked.append((cycle, decode))
        self.pictures.append(picture)
        return np.array([1e-4 * cycle, 0.0]) if decode else None

    def kept(self):
        return np.array([cycle for cycle, _ in self.asked])


def episode(task: str = "point", seed: int = 5, delay: int = 0) -> Episode:
    return Episode(draw(task, seed, delay), physics=False)


def velocities(played: Episode, driver, conditions: Conditions, seed: int = 0) -> list[float]:
    """Speed to the right that the arm got in each cycle."""
    got, step = [], played.step
    played.step = lambda velocity: (got.append(float(velocity[0])), step(velocity))
    play(played, driver, conditions, np.random.default_rng(seed))
    return got


@pytest.mark.parametrize("task", ["point", "point_moving", "recall", "recall_last"])
def test_the_expert_touches_the_target(task):
    for seed in range(3):
        played = episode(task, seed, 5)
        result = play(played, Expert(played), Conditions(), np.random.default_rng(0))
        assert result.succeeded and result.nearest


@pytest.mark.parametrize("lag", [0, 1, 6])
def test_an_action_comes_as_late_as_asked(lag):
    got = velocities(episode(), Noting(), Conditions(lag=lag))
    wanted = [0.0] * lag + [1e-4 * cycle for cycle in range(len(got) - lag)]
    assert got == pytest.approx(wanted)


def test_a_refused_cycle_repeats_three_times_and_then_stops():
    played, driver = episode(), Noting()
    got = velocities(played, driver, Conditions(refused=0.8), seed=3)
    asked = [cycle for cycle, _ in driver.asked]
    assert 0.1 < len(asked) / len(got) < 0.3
    for cycle, value in enumerate(got):
        last = max((each for each in asked if each <= cycle), default=None)
        fresh_enough = last is not None and cycle - last <= 3
        assert value == pytest.approx(1e-4 * last if fresh_enough else 0.0)


def test_a_refused_frame_is_shown_where_it_is_to_be_remembered():
    driver = Noting()
    velocities(episode(), driver, Conditions(refused=0.5, remember=True))
    assert [cycle for cycle, _ in driver.asked] == list(range(len(driver.asked)))
    assert {decode for _, decode in driver.asked} == {True, False}


def test_nothing_is_decoded_for_a_braked_arm_unless_its_action_comes_when_it_is_free():
    driver = Noting()
    velocities(episode(delay=9), driver, Conditions(lag=2))
    assert [decode for _, decode in driver.asked[:9]] == [False] * 7 + [True] * 2


def test_a_frozen_camera_shows_its_first_picture_for_ever():
    driver = Noting()
    play(episode("point_moving"), driver, Conditions(), np.random.default_rng(0), frozen=True)
    assert all(np.array_equal(picture, driver.pictures[0]) for picture in driver.pictures)


def test_the_oracle_forgets_the_cue_last():
    plan = draw("recall", 3, 40)
    oracle, memory = Oracle(plan), FrameMemory(7, 0)
    for cycle in range(plan.end):
        memory.append(cycle + 1, cycle, 0, None)
        if oracle.excess(memory, 6):
            memory.remove(oracle.choose(memory))
    cue = [cycle for cycle in range(plan.end) if plan.cue_cycles(cycle)]
    assert {sequence - 1 for sequence in memory.sequences.tolist()} >= set(cue[-4:])


@pytest.fixture(scope="module")
def stream():
    config = VlaConfig(
        model=ModelSource(preset="tiny"),
        engine=EngineConfig(name="numpy"),
        cache=CacheConfig(capacity_slots=512, eviction="reservoir"),
        action=ActionConfig(
            names=("vx", "vy"), low=(-0.4,) * 2, high=(0.4,) * 2, kinds=("rate",) * 2, bins=255
        ),
    )
    engine = load_engine(config)
    engine.load()
    yield Stream(config, engine)
    engine.close()


def test_decoding_for_a_braked_arm_changes_neither_memory_nor_motion(stream):
    paths = []
    for decode_while_braked in (False, True):
        played = episode("recall", 4, 30)
        stream.begin(played.plan, played.plan.instruction)
        conditions = Conditions(decode_while_braked=decode_while_braked)
        got = velocities(played, stream, conditions)
        paths.append((got[played.plan.go :], stream.kept().tolist()))
    assert paths[0] == paths[1]
    assert len(paths[0][1]) == stream.room


def test_begin_forgets_the_episode_before(stream):
    for _ in range(2):
        played = episode("point", 1)
        stream.begin(played.plan, played.plan.instruction)
        assert len(stream.kept()) == 0
        play(played, stream, Conditions(), np.random.default_rng(0))
    assert len(stream.kept()) > 0
