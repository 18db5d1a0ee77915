# SPDX-License-Identifier: Apache-2.0
"""Training data: episodes that are what they say, labels that can be known, workers that end."""

from __future__ import annotations

import multiprocessing

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs PyTorch")

from vla_edge_ros.engines.numpy_ops import patch_embed  # noqa: E402
from vla_edge_ros.tabletop.expert import expert_velocity  # noqa: E402
from vla_edge_ros.tabletop.tasks import TASKS  # noqa: E402
from vla_edge_ros.training.batches import (  # noqa: E402
    POSITION_SCALE,
    BatchSource,
    Stage,
    make_batch,
    patches_of,
)
from vla_edge_ros.training.losses import UNKNOWN_WEIGHT  # noqa: E402
from vla_edge_ros.training.rollout import MODEL_HEIGHT, MODEL_WIDTH, make_rollout  # noqa: E402
from vla_edge_ros.training.stages import STAGES  # noqa: E402

EQUAL = dict.fromkeys(TASKS, 1.0)


def stage(room: int, tasks=EQUAL, policies=None) -> Stage:
    return Stage("test", room, 30, 3, 60, 1e-3, 1.0, tasks, policies or {"fifo": 1.0})


@pytest.mark.parametrize("task", TASKS)
def test_a_rollout_shows_its_target_and_says_what_the_expert_does(task):
    rollout = make_rollout(task, np.random.default_rng(1), 25, 60)
    assert rollout.pixels.shape == (25, MODEL_HEIGHT, MODEL_WIDTH, 3)
    assert (np.diff(rollout.cycles) > 0).all()
    expected = expert_velocity(rollout.hand, rollout.target) / 0.4
    np.testing.assert_allclose(rollout.velocity, expected, atol=1e-5)
    assert rollout.recalls == task.startswith("recall")


@pytest.mark.parametrize("task", ["recall", "recall_last"])
def test_a_lit_lamp_is_where_the_rollout_says(task):
    """But for the few that the arm or a ball hides."""
    bright = []
    for seed in range(10):
        rollout = make_rollout(task, np.random.default_rng(seed), 25, 60)
        lit = np.flatnonzero(rollout.lit >= 0)
        columns, rows = rollout.spots[lit, 1].round().astype(int).T
        red, green, blue = rollout.pixels[lit, rows, columns].astype(int).T
        bright += ((red > 180) & (green > 180) & (blue < red)).tolist()
    assert len(bright) > 30 and np.mean(bright) > 0.8


def test_the_newest_cue_seen_is_the_target():
    rollout = make_rollout("recall_last", np.random.default_rng(2), 80, 40)
    newest = -1
    for lit, cue in zip(rollout.lit, rollout.cue, strict=True):
        newest = max(newest, lit)
        assert cue == newest


def test_labels_count_only_where_the_target_can_be_known():
    rng = np.random.default_rng(3)
    batch = make_batch(stage(4, {"recall": 1.0}), rng)
    assert set(np.unique(batch.weight)) <= {np.float32(0), np.float32(UNKNOWN_WEIGHT), np.float32(1)}
    before = batch.weight == np.float32(UNKNOWN_WEIGHT)
    assert before.any() and not batch.velocity[before].any(), "no motion before any cue"
    assert (batch.known[batch.recalls] == 1).all()
    assert ((batch.known == 1) <= (batch.weight == 1)).all()


def test_patches_are_those_of_the_engine():
    pixels = np.random.default_rng(0).integers(0, 256, (2, MODEL_HEIGHT, MODEL_WIDTH, 3)).astype(np.uint8)
    projection = np.random.default_rng(1).normal(size=(5, 768)).astype(np.float32)
    ours = (patches_of(torch.from_numpy(pixels)).float() / 127.5 - 1) @ torch.from_numpy(projection).T
    for picture, rows in zip(pixels, ours.numpy(), strict=True):
        np.testing.assert_allclose(rows, patch_embed(picture, projection), atol=1e-4)


def test_the_stages_end_at_the_room_of_the_deployed_cache():
    rooms = [each.room for each in STAGES.values()]
    assert rooms == sorted(rooms) and rooms[0] == 0
    for each in STAGES.values():
        assert make_batch(each, np.random.default_rng(0)).index.shape[-1] == each.room


def test_positions_are_within_about_one():
    batch = make_batch(stage(0), np.random.default_rng(5))
    assert np.abs(batch.positions).max() <= 1.0 + 1e-6 and POSITION_SCALE == 0.28


def test_workers_give_batches_and_end():
    source = BatchSource(stage(2), seed=0, workers=1, ahead=1)
    first, second = source.next(), source.next()
    assert first.pixels.shape == second.pixels.shape
    assert not np.array_equal(first.pixels, second.pixels)
    source.close()
    assert not multiprocessing.active_children()
