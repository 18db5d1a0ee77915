# SPDX-License-Identifier: Apache-2.0
"""Novelty keeps what never came again, and of what did the newest."""

from __future__ import annotations

import numpy as np
import pytest

from vla_edge_ros.config import CacheConfig
from vla_edge_ros.kv_cache.descriptor import describe, descriptor_size
from vla_edge_ros.kv_cache.eviction import make_policy
from vla_edge_ros.kv_cache.frame_memory import FrameMemory

ROOM = 28


def scene(hand: float, lamp: int | None = None) -> np.ndarray:
    """A table with a gradient, an arm with its hand at column ``hand``, and a lamp of 12 pixels."""
    picture = np.zeros((64, 128, 3), np.uint8)
    picture[..., 0] = np.arange(60, 188)
    picture[..., 1] = np.arange(160, 96, -1)[:, None]
    picture[..., 2] = 120
    column = int(hand)
    picture[:44, column : column + 8] = 210
    picture[44:56, column - 2 : column + 10] = 0
    if lamp is not None:
        picture[50:62, 20 + 30 * lamp : 32 + 30 * lamp] = (255, 245, 170)
    return picture


def kept_after(name: str, pictures, room: int = ROOM) -> list[int]:
    policy = make_policy(CacheConfig(eviction=name))
    memory = FrameMemory(room + 1, descriptor_size(policy.descriptor, 0), policy.descriptor == "cells")
    for number, pixels in enumerate(pictures):
        described = describe(policy.descriptor, pixels, np.zeros(0, np.float32))
        memory.append(number, number * 33_000_000, 0, described)
        if policy.excess(memory, room):
            memory.remove(policy.choose(memory))
    return memory.sequences.tolist()


def moving(cycle: int) -> float:
    return 60 + 50 * np.sin(cycle / 15)


def test_a_short_event_outlasts_the_motion_that_follows_a_long_rest_and_bridge_forgets_it():
    """A demonstration of three frames, half a minute at rest, then a hundred frames of a moving arm."""
    pictures = [scene(60 if t < 900 else moving(t), 1 if 20 <= t < 23 else None) for t in range(1000)]
    assert any(20 <= kept < 23 for kept in kept_after("novelty", pictures))
    assert not any(20 <= kept < 23 for kept in kept_after("bridge", pictures))


def test_of_two_events_that_look_alike_the_newer_one_is_kept():
    """Else a memory would say that what happened in between came last."""
    lit = {20: 1, 60: 0, 100: 1}
    pictures = [scene(60, lit.get(t)) for t in range(600)]
    kept = kept_after("novelty", pictures)
    assert {60, 100} <= set(kept) and 20 not in kept


def test_a_still_scene_is_spread_over_time():
    kept = kept_after("novelty", [scene(60)] * 600)
    assert np.diff(kept).max() < 4 * 600 / ROOM


@pytest.mark.parametrize("gain", [0.8, 1.2])
def test_a_lamp_that_dims_is_no_event(gain):
    dimmed = {t: np.clip(scene(60) * gain, 0, 255).astype(np.uint8) for t in range(100, 104)}
    kept = kept_after("novelty", [dimmed.get(t, scene(60)) for t in range(600)])
    assert sum(100 <= frame < 104 for frame in kept) <= 1


def test_a_blank_picture_is_not_worth_keeping():
    blank = np.zeros((64, 128, 3), np.uint8)
    assert 100 not in kept_after("novelty", [blank if t == 100 else scene(60) for t in range(400)])
