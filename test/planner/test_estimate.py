# SPDX-License-Identifier: Apache-2.0
"""Estimates: what was measured is reproduced, memory is the engine's, and properties that hold everywhere."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vla_edge_ros.engines.cuda.plan.buffers import scratch_needs
from vla_edge_ros.engines.cuda.plan.planner import plan
from vla_edge_ros.engines.cuda.plan.weight_buffers import weight_needs
from vla_edge_ros.errors import ConfigError, EngineError
from vla_edge_ros.planner.boards import boards, find_board
from vla_edge_ros.planner.coefficients import coefficients
from vla_edge_ros.planner.estimate import estimate, plan_config
from vla_edge_ros.planner.models import SIZES

CHUNKS = Path(__file__).resolve().parents[2] / "docs" / "benchmarks" / "chunk-h200.json"
MODEL = "qwen2.5-coder-1.5b"
FORMATS = ("bf16", "int8", "int4")
DECODINGS = ("autoregressive", "parallel")


def made(board="h200-sxm", model=MODEL, slots=None, **chosen):
    board = find_board(board) if isinstance(board, str) else board
    return estimate(board, SIZES[model], plan_config(**chosen), slots)


def measured(weights: str, draft: str):
    rows = json.loads(CHUNKS.read_text(encoding="utf-8"))["rows"]
    (row,) = (
        row
        for row in rows
        if row["engine"] == "vla_edge_ros"
        and (row["weights"], row["draft"], row["decode_step"]) == (weights, draft, "persistent")
    )
    return row


@pytest.mark.parametrize("weights", FORMATS)
def test_the_measured_board_s_chunks_come_out_as_measured(weights):
    """Prefill and step are fitted, so they are exact; a chunk has one overhead for all formats."""
    found, said = measured(weights, "off"), made(weights=weights, slots=4000)
    stage = {each.name: each.expected for each in said.stages}
    assert stage["decode step"].fast == pytest.approx(found["decode_step_ms"]["median"], rel=1e-4)
    assert stage["prefill"].fast == pytest.approx(found["prefill_ms"]["median"], rel=0.01)
    assert said.chunk.fast == pytest.approx(found["chunk_ms"]["median"], rel=0.02)
    assert said.measured and said.chunk.fast == said.chunk.slow


@pytest.mark.parametrize("weights", FORMATS)
def test_parallel_decoding_takes_the_one_pass_of_an_accepted_draft(weights):
    """The same rows behind a frame: drafts that were all accepted, and no step."""
    said = made(weights=weights, decoding="parallel", slots=4000)
    assert said.passes == 1 and said.step_kind == ""
    accepted = measured(weights, "held")["chunk_ms"]["median"]
    assert said.chunk.fast == pytest.approx(accepted, rel=0.1)


def test_the_period_is_that_of_the_live_run():
    """15 minutes at 16.7 ms without drafts: the 99th percentile of latencies was 10.5 ms."""
    said = made(slots=4000)
    assert said.period.fast == pytest.approx(10.5 + 1.5, abs=0.6)
    assert said.chunk_p99.fast < said.period.fast < 16.7


@pytest.mark.parametrize("weights", FORMATS)
@pytest.mark.parametrize("kv", ["bf16", "int8"])
def test_memory_is_the_sum_of_what_the_engine_takes(weights, kv):
    said = made(weights=weights, kv=kv)
    sizes = plan(SIZES[MODEL], plan_config(weights, kv), find_board("h200-sxm").device)
    buffers = sum(weight_needs(sizes).values()) + sum(scratch_needs(sizes).values())
    beside = said.memory["loading"] + said.memory["CUDA context"]
    assert said.memory_bytes == sum(said.memory.values()) == buffers + beside


def test_memory_is_about_what_the_device_held():
    """The peak that the driver saw; the loading buffer is given back before kernels are captured."""
    peak = measured("bf16", "off")["device_peak_mb"] * 2**20
    assert peak <= made().memory_bytes < 1.03 * peak


@pytest.mark.parametrize("key", boards())
@pytest.mark.parametrize("model", ["qwen2.5-coder-0.5b", "qwen2.5-coder-7b"])
def test_everywhere_the_floor_is_below_the_fast_end_and_that_below_the_slow_one(key, model):
    for weights in FORMATS:
        for decoding in DECODINGS:
            said = made(key, model, weights=weights, decoding=decoding)
            assert said.floor_ms <= said.chunk.fast <= said.chunk_p99.fast < said.period.fast
            for stage in said.stages:
                assert stage.floor_ms <= stage.expected.fast <= stage.expected.slow
            assert (said.chunk.fast == said.chunk.slow) is said.measured, (
                "a number only where it was measured"
            )


def test_narrower_weights_are_never_larger_or_slower():
    for key in ("orin-nano-super", "rtx-5090", "h100-sxm", "h200-sxm"):
        chain = [made(key, weights=weights) for weights in FORMATS]
        for wide, narrow in zip(chain, chain[1:], strict=False):
            assert narrow.memory_bytes < wide.memory_bytes and narrow.floor_ms < wide.floor_ms
            assert narrow.chunk.fast <= wide.chunk.fast and narrow.chunk.slow <= wide.chunk.slow


def test_fewer_slots_and_int8_keys_and_values_take_less():
    assert made(slots=1024).chunk.fast < made(slots=4096).chunk.fast
    assert made(kv="int8").memory["KV cache"] == made().memory["KV cache"] * 9 / 16
    config = plan_config(slots=1024)
    small = estimate(find_board("rtx-4060"), SIZES[MODEL], config)
    assert (
        small.memory_bytes < made("rtx-4060").memory_bytes
        and small.period.slow < made("rtx-4060").period.slow
    )


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(list(boards())), st.floats(1.0, 50.0), st.sampled_from(FORMATS))
def test_more_bandwidth_is_never_slower(key, factor, weights):
    slow = made(key, weights=weights)
    fast = made(replace(slow.board, bandwidth_gb_s=slow.board.bandwidth_gb_s * factor), weights=weights)
    assert fast.floor_ms <= slow.floor_ms
    for name in ("chunk", "chunk_p99", "period"):
        before, after = getattr(slow, name), getattr(fast, name)
        assert after.fast <= before.fast * (1 + 1e-9) and after.slow <= before.slow * (1 + 1e-9)


def test_a_larger_frame_and_an_instruction_behind_it_take_more_passes():
    config = plan_config()
    large = replace(config, frame=replace(config.frame, width=256, height=128))
    said = estimate(find_board("h200-sxm"), SIZES[MODEL], large)
    assert said.passes == 4 + 7
    behind = replace(config, prompt=replace(config.prompt, place="after_frame"))
    assert estimate(find_board("h200-sxm"), SIZES[MODEL], behind).passes == 1 + 2 + 7


def test_what_the_kernels_or_the_node_refuse_is_refused_in_one_line():
    with pytest.raises(EngineError, match="head_dim to be 64 or 128, got 16"):
        made(model="tiny")
    with pytest.raises(ConfigError, match="engine.weights must be one of bf16, int8, int4, got 'fp8'"):
        plan_config("fp8")
    with pytest.raises(ConfigError, match="capacity_slots must be a multiple"):
        plan_config(slots=1000)


def test_the_coefficients_are_of_a_board_in_the_list():
    assert coefficients().board in boards()
