# SPDX-License-Identifier: Apache-2.0
"""Which eviction policies still hold the event that matters when the robot needs it. No model is involved.

``python -m vla_edge_ros.bench.studies.cue_retention`` plays recall episodes of the simulated table, in which
a lamp lights up for 3 to 9 frames long before the arm may move; the scripted expert then moves the arm. All
policies see the same pictures. Shares of episodes have 95 % intervals (Wilson).
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vla_edge_ros.bench.report import command, print_table, write_json
from vla_edge_ros.config import CacheConfig
from vla_edge_ros.console import console_program
from vla_edge_ros.imaging import resize_rgb
from vla_edge_ros.kv_cache.descriptor import describe, descriptor_size
from vla_edge_ros.kv_cache.eviction import POLICY_NAMES, make_policy
from vla_edge_ros.kv_cache.frame_memory import FrameMemory
from vla_edge_ros.tabletop.episode import Episode
from vla_edge_ros.tabletop.scene import CONTROL_HZ
from vla_edge_ros.tabletop.tasks import draw
from vla_edge_ros.units import NS_PER_S
from vla_edge_ros.wilson import wilson_interval

FIRST_SEED = 1_000_000
WIDTH, HEIGHT = 128, 64  # the model's picture
_PATCH = 16
# The cache's room for frames at 1,024 and 4,096 slots, and a delay of ten times that.
ROOMS = {28: 280, 124: 1240}
TASKS = ("recall", "recall_last")


def play(work: tuple[str, int, int, int]) -> dict[str, tuple[bool, bool]]:
    """By policy: whether a frame of the counting cue was kept when the brake opened, and at the end."""
    task, room, delay, number = work
    plan = draw(task, FIRST_SEED + number, delay)
    episode = Episode(plan, physics=False)
    policies = {name: make_policy(CacheConfig(eviction=name)) for name in POLICY_NAMES}
    sizes = {
        name: descriptor_size(policy.descriptor, _PATCH * _PATCH * 3) for name, policy in policies.items()
    }
    memories = {
        name: FrameMemory(room + 1, sizes[name], policy.descriptor == "cells")
        for name, policy in policies.items()
    }
    at_go = dict.fromkeys(policies, False)
    while not episode.ended:
        cycle = int(episode.cycle)
        pixels = resize_rgb(episode.picture(), WIDTH, HEIGHT)
        # The mean patch, which an engine would project: a random projection keeps its angles.
        patches = pixels.reshape(HEIGHT // _PATCH, _PATCH, WIDTH // _PATCH, _PATCH, 3).mean((0, 2))
        mean_patch = (patches / 127.5 - 1).astype(np.float32).ravel()
        described = {
            kind: describe(kind, pixels, mean_patch)
            for kind in {each.descriptor for each in policies.values()}
        }
        for name, policy in policies.items():
            memory = memories[name]
            memory.append(cycle + 1, cycle * NS_PER_S // CONTROL_HZ, 0, described[policy.descriptor])
            if policy.excess(memory, room):
                memory.remove(policy.choose(memory))
            if cycle == plan.go:
                at_go[name] = any(plan.cue_cycles(int(kept) - 1) for kept in memory.sequences)
        episode.step(episode.expert())
    return {
        name: (at_go[name], any(plan.cue_cycles(int(kept) - 1) for kept in memory.sequences))
        for name, memory in memories.items()
    }


def rows_of(
    task: str, room: int, delay: int, played: Sequence[dict[str, tuple[bool, bool]]]
) -> list[dict[str, Any]]:
    """A row a policy."""
    rows = []
    for name in POLICY_NAMES:
        row: dict[str, Any] = {
            "task": task,
            "room": room,
            "delay": delay,
            "policy": name,
            "episodes": len(played),
        }
        for place, moment in enumerate(("kept_at_go", "kept_at_end")):
            kept = sum(each[name][place] for each in played)
            low, high = wilson_interval(kept, len(played))
            row[moment] = round(kept / len(played), 4)
            row[f"{moment}_low"], row[f"{moment}_high"] = round(low, 4), round(high, 4)
        rows.append(row)
    return rows


@console_program
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rooms", type=int, nargs="+", choices=tuple(ROOMS), default=list(ROOMS))
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=Path, default=Path("docs/benchmarks/cue-retention.json"))
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # one thread a worker
    rows = []
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        for room in options.rooms:
            for task in TASKS:
                work = [(task, room, ROOMS[room], number) for number in range(options.episodes)]
                rows += rows_of(task, room, ROOMS[room], list(pool.imap(play, work, chunksize=2)))
                print(f"{task}, room for {room} frames: {len(work)} episodes played", flush=True)
                write_json(options.json, command("studies.cue_retention"), rows)
    print_table(rows)


if __name__ == "__main__":
    main()
