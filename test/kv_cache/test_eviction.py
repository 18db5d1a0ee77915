# SPDX-License-Identifier: Apache-2.0
"""What must hold for every policy, and what the seed's rule is known to do wrong and the default is not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vla_edge_ros.config import CacheConfig
from vla_edge_ros.errors import ConfigError
from vla_edge_ros.kv_cache.descriptor import CELLS_SIZE, thumbnail
from vla_edge_ros.kv_cache.eviction import POLICY_NAMES, make_policy
from vla_edge_ros.kv_cache.frame_memory import FrameMemory
from vla_edge_ros.kv_cache.policies import reservoir
from vla_edge_ros.splitmix64 import splitmix64_of

PROTECTING = ("bridge", "bridge_distance", "reservoir", "time_thinning", "novelty")
PERIOD_NS = 33_000_000


def run(name, rows: np.ndarray, room: int, stamps=None, protect: int = 8) -> np.ndarray:
    """Stream positions kept after all of ``rows`` went by."""
    policy = make_policy(CacheConfig(eviction=name, protect_latest=protect))
    memory, rows = memory_of(policy, room, rows)
    for i, row in enumerate(rows):
        stamp = i * PERIOD_NS if stamps is None else int(stamps[i])
        memory.append(i, stamp, i % (room + 1), row)
        if policy.excess(memory, room):
            memory.remove(policy.choose(memory))
    return memory.sequences.copy()


def memory_of(policy, room: int, rows: np.ndarray):
    """An empty memory for ``policy``, and what it compares ``rows`` ``[n, size]`` by."""
    if policy.descriptor == "none":
        return FrameMemory(room, 0), [None] * len(rows)
    if policy.descriptor == "cells":
        cells = np.clip(np.rint(128 + 40 * rows), 1, 255)
        repeated = np.tile(cells, (1, CELLS_SIZE // rows.shape[1]))
        return FrameMemory(room, CELLS_SIZE, by_cells=True), repeated
    return FrameMemory(room, rows.shape[1]), rows


def constant_velocity(frames: int, jitter: float, seed: int = 0) -> np.ndarray:
    """Unit vectors that turn by the same small angle a frame, give or take ``jitter``, never coming back."""
    rng = np.random.default_rng(seed)
    place = np.cumsum(1 + jitter * rng.uniform(-1, 1, frames))
    angles = np.outer(place, 0.5 / np.arange(40, 4040, 40))
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)


def test_config_offers_exactly_the_policies_that_exist():
    for name in POLICY_NAMES:
        assert make_policy(CacheConfig(eviction=name))
    with pytest.raises(ConfigError, match="eviction"):
        CacheConfig(eviction="lru")


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(POLICY_NAMES),
    seed=st.integers(0, 2**31),
    frames=st.integers(1, 60),
    room=st.integers(1, 20),
    protect=st.integers(1, 25),
)
def test_every_policy_answers_for_every_size_with_an_index_that_exists(name, seed, frames, room, protect):
    rows = np.random.default_rng(seed).normal(size=(frames, 8))
    kept = run(name, rows, room, protect=protect)
    assert len(kept) == min(frames, room)


@pytest.mark.parametrize("name", POLICY_NAMES)
def test_choosing_changes_nothing_and_gives_the_same_answer_again(name):
    rows = np.random.default_rng(1).normal(size=(41, 8))
    policy = make_policy(CacheConfig(eviction=name))
    memory, rows = memory_of(policy, 40, rows)
    for i, row in enumerate(rows):
        memory.append(i, i * PERIOD_NS, 0, row)
    before = (memory.sequences.copy(), memory.link.copy(), memory.skip.copy(), memory.seen)
    answers = {policy.choose(memory) for _ in range(5)}
    answers.add(make_policy(CacheConfig(eviction=name)).choose(memory))
    assert len(answers) == 1
    for array, copy in zip((memory.sequences, memory.link, memory.skip, memory.seen), before, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("name", PROTECTING)
@pytest.mark.parametrize(("room", "protect"), [(40, 8), (10, 8), (9, 8), (40, 1), (40, 30)])
def test_a40_the_latest_frames_are_never_evicted(name, room, protect):
    rows = np.random.default_rng(2).normal(size=(300, 8))
    kept = run(name, rows, room, protect=protect)
    assert kept[-protect:].tolist() == list(range(300 - protect, 300))


@pytest.mark.parametrize("name", POLICY_NAMES)
def test_a40_the_frame_in_use_stays_even_where_the_window_is_larger_than_the_memory(name):
    rows = np.random.default_rng(3).normal(size=(50, 8))
    assert run(name, rows, room=2, protect=20)[-1] == 49


@pytest.mark.parametrize("jitter", [0.0, 0.1])
def test_a32_bridge_spreads_a_steady_motion_evenly_and_keeps_the_newest(jitter):
    kept = run("bridge", constant_velocity(4000, jitter), room=126)
    assert np.diff(kept, append=4000).max() < 3 * 4000 / 126
    assert kept[-8:].tolist() == list(range(3992, 4000))


def test_a32_the_seed_rule_freezes_on_the_beginning():
    """The fault that ``semantic`` is kept to show; it fails if the rule is no longer the seed's."""
    kept = run("semantic", constant_velocity(4000, 0.1), room=126)
    assert (kept < 2000).sum() > 115
    assert np.diff(kept).max() > 1000
    assert (kept >= 3992).sum() < 4


def test_a33_still_scene_is_thinned_evenly_in_time_not_eroded_from_the_front():
    kept = run("bridge", np.ones((3000, 8)), room=60)
    assert np.diff(kept).max() <= 3 * 3000 / 60
    assert kept[0] == 0


@pytest.mark.parametrize("name", ["bridge", "bridge_distance"])
@pytest.mark.parametrize("seed", [0, 1, 231, 601, 717, 2812])
def test_a_still_picture_of_few_grey_levels_is_thinned_evenly(name, seed):
    """From 231 on the similarity of such a picture to itself rounds above 1, and its root would be NaN."""
    rng = np.random.default_rng(seed)
    cells = rng.choice(rng.integers(0, 256, 3), (8, 16)).astype(np.uint8)
    picture = cells.repeat(8, axis=0).repeat(8, axis=1)[..., None].repeat(3, axis=2)
    rows = np.tile(thumbnail(picture), (60, 1))
    assert run(name, rows, room=20).tolist() == run("time_thinning", rows, room=20).tolist()


def test_a33_noise_cannot_decide_a_tie():
    """Rounding in another BLAS, or on a GPU, is noise of this size; the answer must not depend on it."""
    rng = np.random.default_rng(4)
    scene = rng.normal(size=128)
    clean = np.tile(scene, (400, 1))
    for name in ("bridge", "semantic"):
        expected = run(name, clean, room=30)
        for _ in range(3):
            noisy = clean * (1 + 1e-6 * rng.normal(size=clean.shape))
            np.testing.assert_array_equal(run(name, noisy, room=30), expected)


@pytest.mark.parametrize("glitch", ["noise", "black", "white"])
def test_a34_glitch_is_forgotten_once_it_is_no_longer_new(glitch):
    rng = np.random.default_rng(5)
    scene = rng.integers(0, 200, (64, 128, 3))
    moved = (np.roll(scene, i // 10, axis=1) + rng.normal(0, 2, scene.shape) for i in range(600))
    rows = np.array([thumbnail(np.clip(picture, 0, 255).astype(np.uint8)) for picture in moved])
    broken = {
        "noise": rng.integers(0, 256, scene.shape, dtype=np.uint8),
        "black": np.zeros(scene.shape, np.uint8),
        "white": np.full(scene.shape, 255, np.uint8),
    }[glitch]
    moments = [50, 60, 70, 300]
    rows[moments] = thumbnail(broken)
    kept = run("bridge", rows, room=40)
    assert not set(kept) & set(moments)


def test_a34_the_seed_rule_hoards_glitches():
    rng = np.random.default_rng(6)
    rows = constant_velocity(1500, 0.1)
    moments = [50, 60, 70]
    rows[moments] = rng.normal(size=(3, rows.shape[1]))
    assert set(moments) <= set(run("semantic", rows, room=40))
    assert not set(moments) & set(run("bridge", rows, room=40))


def test_a35_blank_frames_are_not_hoarded_and_do_not_hollow_out_their_surroundings():
    rows = constant_velocity(2000, 0.1)
    rows[100:1900:100] = 0.0
    kept = run("bridge", rows, room=60)
    assert not set(kept) & set(range(100, 1900, 100))
    assert np.diff(kept).max() < 3 * 2000 / 60


def test_a37_an_endless_still_scene_does_not_push_out_what_was_seen_before():
    moving, still = constant_velocity(500, 0.0), np.ones((1, 200))
    rows = np.concatenate([moving, np.repeat(still, 2000, axis=0)])
    kept = run("bridge", rows, room=60)
    assert (kept < 500).sum() >= 10
    assert (run("fifo", rows, room=60) < 500).sum() == 0


def test_frames_without_stamps_are_spaced_by_their_order():
    rows = constant_velocity(1000, 0.0)
    without = run("bridge", rows, room=60, stamps=np.zeros(1000))
    np.testing.assert_array_equal(without, run("bridge", rows, room=60))


def test_a_recording_that_starts_again_does_not_stop_the_memory():
    """A bag in a loop sets the clock back an hour; the frames after it must be spaced as before."""
    rows = constant_velocity(2000, 0.0)
    stamps = np.tile(np.arange(1000) * PERIOD_NS, 2)
    kept = run("bridge", rows, room=60, stamps=stamps)
    assert np.diff(kept).max() < 3 * 2000 / 60


def test_reservoir_keeps_every_frame_equally_often(monkeypatch):
    """Of 400 frames the latest 8 stay, each other one with probability 32/392; over 300 hash sequences."""
    frames, room, runs = 400, 40, 300
    times_kept = np.zeros(frames)
    for start in range(runs):
        monkeypatch.setattr(
            reservoir, "splitmix64_of", lambda value, start=start: splitmix64_of(value + start * 1_000_003)
        )
        times_kept[run("reservoir", np.zeros((frames, 1)), room)] += 1
    assert (times_kept[-8:] == runs).all()
    quarters = [part.mean() / runs for part in np.array_split(times_kept[:-8], 4)]
    assert quarters == pytest.approx([32 / 392] * 4, rel=0.06)


def test_time_thinning_is_within_twice_of_even_spacing():
    kept = run("time_thinning", np.zeros((4000, 1)), room=126)
    assert np.diff(kept).max() <= 2 * np.ceil(4000 / 126)
