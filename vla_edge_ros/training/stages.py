# SPDX-License-Identifier: Apache-2.0
"""The stages of training, from one frame to the cache that the policy will run with.

Minutes and episodes a batch are those of an H200, of which a stage takes less than ten minutes. A CPU makes
some hundred frames a second, a hundredth of that: there ``--episodes 1`` and a few times the minutes are the
better choice (measured: small batches and many steps).
"""

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
# The rarest case needs the most practice: one frame of the cue among all that are kept.
_ONE_FRAME = {"novelty": 0.8, ORACLE: 0.2}

STAGES = {
    stage.name: stage
    for stage in (
        Stage("frame", 0, 4, 32, 60, 1.5e-3, 1.0, _TASKS, _POLICIES),
        Stage("short", 3, 10, 12, 60, 1.2e-3, 0.7, _TASKS, _POLICIES),
        Stage("middle", 8, 24, 8, 150, 8e-4, 1.0, _TASKS, _POLICIES),
        Stage("slots-1024", 28, 60, 4, 300, 5e-4, 3.5, _TASKS, _POLICIES),
        Stage("one-frame-1024", 28, 60, 4, 300, 4e-4, 2.3, _RECALL, _ONE_FRAME),
        Stage("slots-4096", 124, 190, 1, 1300, 4e-4, 8.0, _RECALL, _ONE_FRAME),
    )
}
STAGES_1024 = tuple(name for name in STAGES if name != "slots-4096")
