# SPDX-License-Identifier: Apache-2.0
"""The claims of docs/explanation/memory.md, checked on the real clips."""

from __future__ import annotations

import json

import numpy as np
import pytest

from vla_edge_ros.bench.report import write_json
from vla_edge_ros.bench.studies import retention_replay, retention_trials
from vla_edge_ros.bench.studies.footage import Footage, join, read_clips
from vla_edge_ros.kv_cache.eviction import POLICY_NAMES

LOOKING = ("bridge", "bridge_distance")
SIZE = 126


@pytest.fixture(scope="module")
def clips(data_dir) -> list[Footage]:
    return read_clips(data_dir / "clips")


@pytest.fixture(scope="module")
def joined(clips) -> retention_replay.Prepared:
    return retention_replay.prepare(join(retention_replay.JOINED, clips, 150))


@pytest.fixture(scope="module")
def rows(joined) -> dict:
    chosen = retention_replay.policies()
    return {name: retention_replay.evaluate(joined, name, policy, SIZE) for name, policy in chosen.items()}


@pytest.mark.parametrize("name", LOOKING)
@pytest.mark.parametrize("other", ["fifo", "sliding_window", "semantic", "semantic_newer", "reservoir"])
@pytest.mark.parametrize("key", ["coverage_mean", "coverage_p95", "shape_mean", "shape_p95"])
def test_bridge_covers_the_joined_clips_better_than(rows, name, other, key):
    assert rows[name][key] < rows[other][key]


@pytest.mark.parametrize("name", LOOKING)
@pytest.mark.parametrize("key", ["coverage_p95", "shape_p95", "shape_max"])
def test_bridge_has_a_shorter_tail_than_even_spacing(rows, name, key):
    assert rows[name][key] < rows["time_thinning"][key]


@pytest.mark.parametrize("name", LOOKING)
def test_bridge_keeps_every_scene_the_latest_eight_and_no_glitch(rows, name):
    assert rows[name]["scene_recall"] == 1.0
    assert rows[name]["recent_kept"] == 8
    assert rows[name]["glitch_kept"] == 0


def test_a34_the_seed_rule_keeps_every_glitch_and_loses_the_present(rows):
    assert rows["semantic"]["glitch_kept"] == 3
    assert rows["semantic"]["recent_kept"] < 4


def test_a32_the_seed_rule_leaves_a_hole_that_bridge_does_not(rows):
    assert rows["semantic"]["largest_hole"] > 0.15
    assert rows["bridge"]["largest_hole"] < 0.07


def test_a50_sliding_window_is_fifo_on_real_footage_too(rows):
    different = {"policy", "clip"}
    assert {k: v for k, v in rows["fifo"].items() if k not in different} == {
        k: v for k, v in rows["sliding_window"].items() if k not in different
    }


@pytest.mark.parametrize(("policy", "trial"), [("bridge", "bridge"), ("time_thinning", "time_thinning")])
def test_policy_keeps_what_its_rule_says_over_the_full_similarity_matrix(joined, policy, trial):
    """Two programs, one over running neighbour values and one over all pairs, agree frame by frame."""
    frames = 900
    footage, descriptors = joined.footage, joined.descriptors
    part = Footage("part", footage.pixels[:frames], footage.stamps_ns[:frames], footage.scenes[:frames])
    kind, rule = retention_trials.TRIALS[trial]
    similarity = retention_trials.cosines(descriptors[kind][:frames])
    expected = retention_trials.keep(rule, similarity, part.stamps_ns.astype(float), 64)
    kept = retention_replay.replay(part, descriptors, retention_replay.policies()[policy], 64, expected)
    for seen, positions in expected.items():
        np.testing.assert_array_equal(kept[seen], positions)


def test_rows_have_a_score_for_every_policy_and_survive_json(tmp_path, clips):
    shortest = min(clips, key=len)
    assert retention_replay.sizes_for(len(shortest)) == [16]
    rows = retention_replay.run([retention_replay.prepare(shortest)])
    write_json(tmp_path / "retention.json", "a command", rows)
    back = json.loads((tmp_path / "retention.json").read_text())["rows"]
    assert {row["policy"] for row in back} == {*POLICY_NAMES, "semantic_newer"}
    assert set(back[0]) >= {
        "clip",
        "policy",
        "frames_kept",
        "coverage_mean",
        "coverage_p95",
        "coverage_max",
        "largest_hole",
        "recent_kept",
        "scene_recall",
        "glitch_kept",
    }


@pytest.mark.parametrize(
    ("frames", "sizes"),
    [(36, [16]), (64, [32]), (251, [64, 32]), (252, [126, 64, 32])],
)
def test_cache_sizes_leave_at_least_half_of_a_clip_to_be_forgotten(frames, sizes):
    assert retention_replay.sizes_for(frames) == sizes


def test_checkpoints_start_after_the_cache_is_full_and_end_with_the_stream():
    assert retention_replay.checkpoints(526, 126) == [226, 326, 426, 526]
