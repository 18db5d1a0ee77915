# SPDX-License-Identifier: Apache-2.0
"""Bytes and operations of a pass, against counts that come from the tensors' shapes."""

from __future__ import annotations

import math

import pytest

from vla_edge_ros.engines.cuda.plan.planner import plan
from vla_edge_ros.model.memory_traffic import bytes_a_chunk
from vla_edge_ros.model.tensor_shapes import EMBEDDING, LM_HEAD, tensor_shapes
from vla_edge_ros.planner.boards import find_board
from vla_edge_ros.planner.estimate import plan_config
from vla_edge_ros.planner.models import SIZES
from vla_edge_ros.planner.work import embed_work, pass_work

MODELS = [name for name in SIZES if name != "tiny"]


def sizes_of(model: str, weights: str = "bf16", decoding: str = "autoregressive"):
    return plan(SIZES[model], plan_config(weights, decoding=decoding), find_board("h200-sxm").device)


@pytest.mark.parametrize("weights", ["bf16", "int8", "int4"])
@pytest.mark.parametrize("model", MODELS)
def test_a_step_reads_what_the_tensors_hold(model, weights):
    """``memory_traffic`` counts a chunk of eight passes from shapes and bits, without tiles and padding."""
    read = pass_work(sizes_of(model, weights), "decode", 4096).bytes
    assert 8 * read == pytest.approx(bytes_a_chunk(SIZES[model], plan_config(weights)), rel=0.01)


@pytest.mark.parametrize("model", MODELS)
def test_operations_are_two_a_weight_and_token_and_four_a_slot_and_query_dimension(model):
    decoder, sizes = SIZES[model], sizes_of(model)
    matrices = sum(
        math.prod(shape)
        for name, shape in tensor_shapes(decoder).items()
        if len(shape) == 2 and name not in (EMBEDDING, LM_HEAD)
    )
    attention = decoder.num_hidden_layers * 2 * 1000 * decoder.q_size
    head = 256 * decoder.hidden_size
    for name, rows in (("decode", 1), ("prefill", 32)):
        expected = 2 * (rows * (matrices + attention) + head)
        assert pass_work(sizes, name, 1000).flop == pytest.approx(expected)


def test_more_slots_are_more_bytes_and_more_operations():
    few, many = (pass_work(sizes_of("qwen2.5-coder-3b"), "decode", slots) for slots in (32, 4096))
    assert few.bytes < many.bytes and few.flop < many.flop and few.layers == many.layers == 36


@pytest.mark.parametrize(
    ("model", "costs_more"),
    [("qwen2.5-coder-0.5b", False), ("qwen2.5-coder-1.5b", False), ("qwen2.5-coder-7b", True)],
)
def test_only_tokens_that_fit_nowhere_near_make_the_stream_longer(model, costs_more):
    """At 7 B the 32 tokens of a frame fill neither a warp's registers nor shared memory in gate/up."""
    sizes = sizes_of(model)
    prefill, step = pass_work(sizes, "prefill", 4000), pass_work(sizes, "decode", 4000)
    assert (prefill.stream_bytes > prefill.bytes) is costs_more
    assert prefill.stream_bytes < 1.5 * prefill.bytes  # at most what the tiling prices, of a part of them
    assert step.stream_bytes == step.bytes


def test_an_embedding_reads_its_projection_and_the_pixels():
    work = embed_work(sizes_of("qwen2.5-coder-1.5b"))
    assert work.bytes == 768 * 1536 * 2 + 128 * 64 * 3 and work.flop == 2 * 32 * 768 * 1536
