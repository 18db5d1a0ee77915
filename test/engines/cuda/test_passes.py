# SPDX-License-Identifier: Apache-2.0
"""The launches without a device: grids, shared memory and arguments fit signatures and limits."""

from __future__ import annotations

import ctypes
from collections import defaultdict

import numpy as np
import pytest

pytest.importorskip("cupy")

from vla_edge_ros.config import EngineConfig, VlaConfig  # noqa: E402
from vla_edge_ros.engines.cuda.load.kernels import SIGNATURES, Residual  # noqa: E402
from vla_edge_ros.engines.cuda.load.packed_weights import WeightLoader, targets  # noqa: E402
from vla_edge_ros.engines.cuda.plan.buffers import scratch_needs  # noqa: E402
from vla_edge_ros.engines.cuda.plan.device_sizes import Device  # noqa: E402
from vla_edge_ros.engines.cuda.plan.planner import plan  # noqa: E402
from vla_edge_ros.engines.cuda.plan.weight_buffers import weight_needs  # noqa: E402
from vla_edge_ros.engines.cuda.run.passes import Pass, launch_embed_frame  # noqa: E402
from vla_edge_ros.model.decoder_config import QWEN2_5_CODER_1_5B  # noqa: E402
from vla_edge_ros.model.random_weights import RandomWeights  # noqa: E402
from vla_edge_ros.model.tensor_shapes import tensor_shapes  # noqa: E402

H200 = Device("H200", 90, 132, 232448, 233472)
ORIN = Device("Orin", 87, 16, 166912, 167936)
ADA = Device("4090", 89, 128, 101376, 102400)


class RecordedKernel:
    """Stands in for a loaded kernel: converts the arguments as a launch would, and keeps what was asked."""

    def __init__(self, name, calls):
        self.name, self.calls = name, calls

    def launch(self, stream, grid, threads, shared_bytes, *values):
        kinds = SIGNATURES[self.name]
        assert len(values) == len(kinds), self.name
        for kind, value in zip(kinds, values, strict=True):
            assert isinstance(value, kind) or kind(value) is not None
            if kind is ctypes.c_void_p and value is not None:
                assert value > 0, f"{self.name} got a buffer at address 0"
        self.calls.append((self.name, grid, threads, shared_bytes, values))


class Addresses:
    """Stands in for the device's buffers: distinct addresses, an error for an unknown name."""

    def __init__(self, needs):
        self.at, next_at = {}, 1 << 20
        for name, size in needs.items():
            self.at[name] = next_at
            next_at += size + 512

    def __getitem__(self, name):
        return self.at[name]


@pytest.fixture(params=["bf16", "int8", "int4"])
def config(request):
    return VlaConfig(engine=EngineConfig(weights=request.param, draft="last_action"))


@pytest.fixture(params=[H200, ORIN, ADA], ids=lambda device: device.name)
def recorded(request, config):
    sizes = plan(QWEN2_5_CODER_1_5B, config, request.param)
    memory = Addresses({**weight_needs(sizes), **scratch_needs(sizes)})
    calls = []
    every = {name: RecordedKernel(name, calls) for name in SIGNATURES}
    kernels = dict.fromkeys(sizes.passes, every)
    return sizes, memory, kernels, calls


@pytest.mark.parametrize(
    ("name", "a_layer", "head"), [("decode", 5, 2), ("prefill", 8, 2), ("drafted", 8, 3), ("verify", 8, 3)]
)
def test_a_pass_is_five_kernels_a_layer_or_eight_with_the_norms(recorded, name, a_layer, head):
    sizes, memory, kernels, calls = recorded

    Pass(name, sizes, kernels, memory, 1, 1).launch(1, memory["next_token"])

    assert len(calls) == a_layer * sizes.decoder.num_hidden_layers + head
    for kernel, grid, threads, shared_bytes, _ in calls:
        assert min(grid) >= 1 and threads % 32 == 0 and threads <= 1024, kernel
        assert shared_bytes <= sizes.device.shared_bytes, kernel


def test_a_persistent_step_is_one_kernel_and_the_head(recorded):
    sizes, memory, kernels, calls = recorded
    decode = Pass("decode", sizes, kernels, memory, 1, 1)
    if sizes.persistent is None:
        assert sizes.device in (ORIN, ADA)
        return
    decode.launch_persistent(1, memory["next_token"], 2, 3)
    assert [call[0] for call in calls] == ["decode_layers", "action_head", "select_token"]
    _, grid, threads, shared_bytes, (arguments,) = calls[0]
    assert grid == (sizes.device.multiprocessors, 1, 1) and threads == 256
    assert shared_bytes <= sizes.device.shared_bytes
    given = {name: getattr(arguments, name) for name, _ in arguments._fields_ if name != "stride"}
    assert given.pop("times") in (0, None)
    assert all(address for address in given.values()) and len(set(given.values())) == len(given)
    assert all(getattr(arguments.stride, name) > 0 for name, _ in arguments.stride._fields_)


def test_a_residual_is_never_read_and_written_in_one_launch(recorded):
    """Every block of a decode step sums the residual while block 0 writes the sum."""
    sizes, memory, kernels, calls = recorded
    Pass("decode", sizes, kernels, memory, 1, 1).launch(1, memory["next_token"])
    for kernel, *_, values in calls:
        read = [value.stream for value in values if isinstance(value, Residual)]
        assert not set(read) & {value for value in values if isinstance(value, int)}, kernel


def test_embedding_a_frame_is_three_kernels(recorded):
    sizes, memory, kernels, calls = recorded
    launch_embed_frame(1, sizes, kernels["prefill"], memory, 1)
    assert [call[0] for call in calls] == ["patch_operand", "patch_projection", "pool_tokens"]


def test_the_busiest_block_reads_little_more_than_its_share(config):
    decode = plan(QWEN2_5_CODER_1_5B, config, H200).decode
    projections = ((decode.qkv, 128), (decode.output, 96), (decode.gate_up, 1120), (decode.down, 96))
    for tiling, row_tiles in projections:
        busiest = -(-row_tiles // tiling.blocks) / tiling.split_k
        assert busiest <= 1.08 * row_tiles / H200.multiprocessors


def test_two_kernels_of_a_decode_step_share_an_sm_where_they_overlap(config):
    sizes = plan(QWEN2_5_CODER_1_5B, config, H200)
    for tiling in (sizes.decode.qkv, sizes.decode.output, sizes.decode.gate_up, sizes.decode.down):
        blocks_an_sm = 1 if config.engine.weights == "bf16" else 2
        assert 2 * blocks_an_sm * tiling.shared_bytes <= H200.shared_bytes_sm


def test_every_tensor_has_a_target_inside_its_buffer(recorded):
    sizes = recorded[0]
    found = targets(sizes)
    named = {target.tensor for target in found}
    assert set(tensor_shapes(sizes.decoder)) <= named
    needs = weight_needs(sizes)
    assert all(0 <= target.offset < needs[target.buffer] for target in found)


def test_random_weights_cover_each_tensor_once(recorded, monkeypatch):
    """Pieces follow one another without a gap, however the tensor divides into them."""
    from vla_edge_ros.engines.cuda.load import packed_weights

    sizes, memory, kernels, calls = recorded
    monkeypatch.setattr(packed_weights, "pinned_array", np.zeros)

    class Piece:
        ptr = 1 << 30

    memory.take = lambda name, size: Piece
    loader = WeightLoader(memory, kernels["decode"], RandomWeights(sizes.decoder, 0), 1)
    for target in targets(sizes):
        loader._load(target)
    rows = defaultdict(int)
    for kernel, *_, values in calls:
        if kernel in ("pack_tiles", "quantise_int8", "quantise_int4"):
            from_end = values[-9:-1]  # from here on all three have the same arguments
            rows[values[0], from_end[5], from_end[7]] += from_end[2]
    assert (
        sum(rows.values())
        == sum(shape[0] for shape in tensor_shapes(sizes.decoder).values() if len(shape) == 2)
        + sizes.head_rows
    )
