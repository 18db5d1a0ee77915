# SPDX-License-Identifier: Apache-2.0
"""The stages of training, from one frame to the cache that the policy will run with."""

from __future__ import annotations

from vla_edge_ros.training.batches import Stage
from vla_edge_ros.training.kept_sets import ORACLE

_TASKS = {"point": 0.3, "point_moving": 0.1, "recall": 0.3, "recall_last": 0.3}
_RECALL = {"point": 0.12, "point_moving": 0.08, "recall": 0.4, "recall_last": 0.4}
_POLICIES = {
    ORACLE: 0.35,
    "novelty": 0.35,
    "fifo": 0.05,
    "reservoir": 0.1,
    "time_thinning": 0.05,
    "semantic": 0.05,
    "bridge": 0.05,
}

STAGES = {
    stage.name: stage
    for stage in (
        Stage("frame", 0, 4, 5, 60, 1.5e-3, 12.0, _TASKS, _POLICIES),
        Stage("short", 3, 10, 3, 60, 1.2e-3, 8.0, _TASKS, _POLICIES),
        Stage("middle", 8, 24, 1, 150, 6e-4, 10.0, _TASKS, _POLICIES),
        Stage("slots-1024", 28, 60, 1, 300, 4e-4, 25.0, _TASKS, _POLICIES),
        # The rarest case needs the most practice: one frame of the cue among all that are kept.
        Stage("one-frame-1024", 28, 60, 1, 300, 4e-4, 13.0, _RECALL, {"novelty": 0.8, ORACLE: 0.2}),
    )
}
