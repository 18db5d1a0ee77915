# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from vla_edge_ros.bench.studies import retention_plot, retention_replay
from vla_edge_ros.bench.studies.footage import Footage, join


def test_plots_are_written_and_small(tmp_path):
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (90, 64, 128, 3), dtype=np.uint8)
    clip = Footage("made", pixels, np.arange(90) * 33_000_000, np.zeros(90, np.int64))
    streams = [
        retention_replay.prepare(footage) for footage in (clip, join(retention_replay.JOINED, [clip], 30))
    ]
    row = {"clip": retention_replay.JOINED, "policy": "bridge", "coverage_mean": 2.0, "coverage_p95": 5.0}
    rows = [{**row, "frames_kept": size} for size in (32, 64)]
    paths = list(retention_plot.draw_all(streams, rows, tmp_path / "images"))
    assert [path.name for path in paths] == [
        "retention-kept-joined.png",
        "retention-kept-made.png",
        "retention-coverage.png",
    ]
    assert all(10_000 < path.stat().st_size < 200_000 for path in paths)
