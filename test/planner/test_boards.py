# SPDX-License-Identifier: Apache-2.0
"""The boards' file: complete, sourced, and read as CUDA would name the device."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest

from vla_edge_ros.errors import ConfigError
from vla_edge_ros.planner.boards import boards, boards_of, find_board

ALL = list(boards().values())


@pytest.mark.parametrize("board", ALL, ids=lambda board: board.key)
def test_each_figure_has_a_source_with_an_address_and_a_date(board):
    assert board.sources
    for source in board.sources:
        assert source.url.startswith(("https://", "http://")) and " " not in source.url and source.states
        assert datetime.date.fromisoformat(source.read) >= datetime.date(2025, 1, 1)


@pytest.mark.parametrize("board", ALL, ids=lambda board: board.key)
def test_figures_are_plausible_and_dense(board):
    assert 0 < board.reserved_gb < board.memory_gb and board.power_w > 0
    assert board.shared_with_cpu == board.name.startswith("Jetson")
    # A tensor core of these generations does 512 to 4,096 dense bfloat16 operations a clock: a sparse figure
    # taken for a dense one would leave that range, or contradict INT8, which is two or four times as fast.
    a_clock = board.bf16_tflops * 1e3 / (board.multiprocessors * board.clock_ghz)
    assert 500 < a_clock < 8500, a_clock
    assert board.int8_tops / board.bf16_tflops == pytest.approx(2, rel=0.02) or (
        board.int8_tops / board.bf16_tflops == pytest.approx(4, rel=0.02)
    )


def test_the_measured_board_has_the_fewest_clocks_a_byte():
    """What the slow end of a range rests on: no other board is poorer in arithmetic for its bandwidth."""

    def clocks_a_byte(board):
        return board.multiprocessors * board.clock_ghz / board.bandwidth_gb_s

    assert min(ALL, key=clocks_a_byte).key == "h200-sxm"


def test_an_unknown_board_is_one_line_that_names_the_known_ones():
    with pytest.raises(ConfigError) as caught:
        find_board("gtx-480")
    assert "'gtx-480'" in str(caught.value) and "orin-nano-super" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_device_is_found_by_name_capability_and_multiprocessors():
    device = find_board("h200-sxm").device
    assert boards_of(replace(device, name="NVIDIA H200")) == [find_board("h200-sxm")]
    # An instance of a divided GPU, a laptop's, and another module of the same name are other boards.
    assert boards_of(replace(device, name="NVIDIA H200 MIG 1g.18gb", multiprocessors=16)) == []
    assert boards_of(replace(device, name="NVIDIA H200", multiprocessors=60)) == []
    laptop = replace(find_board("rtx-4090").device, name="NVIDIA GeForce RTX 4090 Laptop GPU")
    assert boards_of(laptop) == []


def test_cuda_calls_two_orin_modules_by_one_name():
    orin = replace(find_board("orin-nx-16gb").device, name="Orin")
    assert {board.key for board in boards_of(orin)} == {"orin-nano-super", "orin-nx-16gb"}
    assert [board.key for board in boards_of(replace(orin, multiprocessors=16))] == ["agx-orin-64gb"]
