# SPDX-License-Identifier: Apache-2.0
"""The phases of a decode step: differences of clocks, over the blocks that have them."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("cupy")

from vla_edge_ros.bench.kernels.decode_phases import POINTS, phase_rows
from vla_edge_ros.engines.cuda.load.nvrtc import kernel_text


def test_there_is_a_name_for_each_point_of_the_kernel():
    text = kernel_text()["phase_clock.cuh"].decode()
    (body,) = re.findall(r"enum PhasePoint \{(.*?)PHASE_POINTS", text, re.DOTALL)
    assert len(re.findall(r"[A-Z_]+,", body)) == len(POINTS)


def test_each_point_is_measured_from_the_last_one_a_block_came_by():
    """Two blocks, four layers; the second block has no attention and is twice as slow."""
    cycles = np.zeros((3, 2, 4, len(POINTS)), np.int64)
    steps = np.arange(len(POINTS)) * 10
    for layer in range(4):
        cycles[:, 0, layer] = 1000 + 500 * layer + steps
        cycles[:, 1, layer] = 1000 + 500 * layer + 2 * steps
    cycles[:, 1, :, 5:10] = 0
    rows = phase_rows(cycles, np.array([True, False]))
    attending = {row["until"]: row["cycles"] for row in rows if row["blocks"] == "attending"}
    others = {row["until"]: row["cycles"] for row in rows if row["blocks"] == "others"}
    assert attending["scores"] == 10 and "scores" not in others
    assert others["barrier: attention"] == 2 * 60  # from "QKV stored", six points on
    assert attending["next layer"] == others["next layer"] == 500


@pytest.mark.gpu
def test_the_points_of_a_real_step_come_one_after_the_other():
    from vla_edge_ros.bench.kernels.decode_phases import measure
    from vla_edge_ros.config import VlaConfig
    from vla_edge_ros.engines.cuda.load.device import current_device
    from vla_edge_ros.engines.cuda.plan.planner import plan
    from vla_edge_ros.model.decoder_config import resolve

    config = VlaConfig()
    if plan(resolve(config.model), config, current_device()).persistent is None:
        pytest.skip("a step of these sizes is not one kernel on this device")
    rows = measure(config)
    assert {row["blocks"] for row in rows} == {"attending", "others"}
    assert all(0 < row["cycles"] < 10**6 for row in rows)
