# SPDX-License-Identifier: Apache-2.0
"""Which frames were in view: how far back they reach, and that two rules keep the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.bench.run.trial_data import RunData, TrialData
from vla_edge_ros.config import CacheConfig
from vla_edge_ros.kv_cache.eviction import make_policy
from vla_edge_ros.kv_cache.frame_memory import FrameMemory
from vla_edge_ros.types import Outcome

SAME = ("fifo", "sliding_window")


def retention(trials: Sequence[TrialData]) -> dict[str, Any]:
    """Of the last look of each trial, and medians over all looks of the measured stretch."""
    looks = [note for trial in trials for note in _measured_looks(trial)]
    if not looks:
        return {"looks": 0}
    last = trials[0].kept[-1]
    return {
        "looks": len(looks),
        "frames": float(np.median([len(note["kept_s"]) for note in looks])),
        "oldest_s": float(np.median([_ages(note)[0] for note in looks])),
        "median_age_s": float(np.median([np.median(_ages(note)) for note in looks])),
        "largest_hole_s": float(np.median([_largest_hole(note) for note in looks])),
        "last_kept_s": last["kept_s"],
        "last_at_s": last["at_s"],
    }


def _measured_looks(trial: TrialData) -> list[dict[str, Any]]:
    begin_s = len(trial.warmup) * trial.period_ms / 1000
    return [note for note in trial.kept if note["kept_s"] and note["at_s"] >= begin_s]


def _ages(note: dict[str, Any]) -> NDArray[np.float64]:
    """Seconds, the oldest first."""
    return note["at_s"] - np.array(note["kept_s"])


def _largest_hole(note: dict[str, Any]) -> float:
    """The longest time between two neighbours in view."""
    return float(np.diff(note["kept_s"]).max()) if len(note["kept_s"]) > 1 else 0.0


def is_one_rule(run: RunData) -> bool:
    """Whether ``fifo`` and ``sliding_window`` forget the same frames: without a window of its own length."""
    return not run.trials[0].config["cache"]["window_frames"]


def same_kept(trials: Sequence[TrialData]) -> dict[str, Any]:
    """Every frame that these trials kept, replayed through ``fifo`` and ``sliding_window`` of a full window.

    ``differing``: after how many of ``frames`` the two kept different ones.
    """
    frames = differing = 0
    for trial in trials:
        room = _room(trial)
        rules = [make_policy(CacheConfig(eviction=name)) for name in SAME]
        memories = [FrameMemory(room + 1, 0, False) for _ in SAME]
        for record in [*trial.warmup, *trial.cycles]:
            if record.outcome is not Outcome.ACTED:
                continue
            for rule, memory in zip(rules, memories, strict=True):
                memory.append(record.frame_sequence, record.frame_stamp_ns, 0, None)
                if rule.excess(memory, room):
                    memory.remove(rule.choose(memory))
            frames += 1
            differing += memories[0].sequences.tolist() != memories[1].sequences.tolist()
    return {"frames": frames, "differing": differing, "room": _room(trials[0])}


def _room(trial: TrialData) -> int:
    """Frames in view besides the newest, as many as ever were."""
    return max([len(note["kept_s"]) - 1 for note in trial.kept if note["kept_s"]] + [1])
