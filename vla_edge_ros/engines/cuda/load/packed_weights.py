# SPDX-License-Identifier: Apache-2.0
"""The decoder's weights on the device, packed in the order the kernels stream them.

Tensor by tensor, in pieces: mapped file, page-locked piece, device piece, packed or quantised in place.
Random weights are made on the device. No second copy of the model exists on either side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

import cupy
import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.config import FrameConfig
from vla_edge_ros.engines.cuda.load.kernels import Kernel
from vla_edge_ros.engines.cuda.load.memory import DeviceMemory, pinned_array
from vla_edge_ros.engines.cuda.plan.sizes import Sizes
from vla_edge_ros.engines.cuda.plan.weight_buffers import PIECE_BYTES, head_is_embedding, layer_offsets
from vla_edge_ros.engines.cuda.plan.weight_format import BF16, WeightFormat
from vla_edge_ros.errors import EngineError
from vla_edge_ros.model.finite_weights import finite, require_finite
from vla_edge_ros.model.patch_embedding import PATCH_PROJECTION, patch_projection
from vla_edge_ros.model.random_weights import RandomWeights, scale_and_offset, tensor_key
from vla_edge_ros.model.tensor_shapes import EMBEDDING, FINAL_NORM, head_name, layer_prefix, tensor_shapes
from vla_edge_ros.model.weights import Weights

PLAIN, HALF_SPLIT, INTERLEAVED = 0, 1, 2  # row orders of packing.cuh
_TYPES = {"bfloat16": (0, 2), "float16": (1, 2), "float32": (2, 4)}  # code of packing.cuh, bytes
_PACKERS = {"bf16": "pack_tiles", "int8": "quantise_int8", "int4": "quantise_int4"}
_THREADS = 256
_BLOCKS = 2048
_UP_ROWS = 8  # where the up rows begin in a gate-and-up tile

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Target:
    """Where one tensor goes: ``buffer`` at byte ``offset``.

    ``matrix``: padded rows and columns of the packed matrix that it is a part of; none for a vector.
    """

    tensor: str
    buffer: str
    offset: int
    matrix: tuple[int, int] | None
    weights: WeightFormat = BF16
    row_shift: int = 0
    order: int = PLAIN
    period_or_lane: int = 0
    rows: tuple[int, int] | None = None


def targets(sizes: Sizes) -> list[Target]:
    """Every tensor of the decoder, in the order of a forward pass."""
    decoder, size = sizes.decoder, layer_offsets(sizes)
    hidden, inner, body = decoder.hidden_size, sizes.intermediate, sizes.weights
    found = [Target(EMBEDDING, "embedding", 0, (decoder.vocab_size, hidden), sizes.embedding)]
    qkv_rows = (("q", 0), ("k", decoder.q_size), ("v", decoder.q_size + decoder.kv_size))
    qkv = (decoder.q_size + 2 * decoder.kv_size, hidden)
    for layer in range(decoder.num_hidden_layers):
        at = layer_prefix(layer)
        found.append(Target(at + "input_layernorm.weight", "norms", 2 * layer * size.norm, None))
        for name, shift in qkv_rows:
            order = (shift, HALF_SPLIT, decoder.head_dim)
            weight = f"{at}self_attn.{name}_proj.weight"
            found.append(Target(weight, "qkv", layer * size.qkv, qkv, body, *order))
            if decoder.qkv_bias:
                bias = f"{at}self_attn.{name}_proj.bias"
                found.append(Target(bias, "qkv_bias", layer * size.bias, None, BF16, *order))
        output = at + "self_attn.o_proj.weight"
        found.append(Target(output, "output", layer * size.output, (hidden, decoder.q_size), body))
        norm = at + "post_attention_layernorm.weight"
        found.append(Target(norm, "norms", (2 * layer + 1) * size.norm, None))
        for name, lane in (("gate", 0), ("up", _UP_ROWS)):
            weight, into = f"{at}mlp.{name}_proj.weight", layer * size.gate_up
            found.append(Target(weight, "gate_up", into, (2 * inner, hidden), body, 0, INTERLEAVED, lane))
        found.append(Target(at + "mlp.down_proj.weight", "down", layer * size.down, (hidden, inner), body))
    found.append(Target(FINAL_NORM, "norms", 2 * decoder.num_hidden_layers * size.norm, None))
    if not head_is_embedding(sizes):
        rows, first = sizes.head_rows, sizes.head_first
        kept = (first, first + rows)
        head = Target(
            head_name(decoder), "head", 0, (rows, hidden), sizes.embedding, row_shift=-first, rows=kept
        )
        found.append(head)
    return found


class WeightLoader:
    """Fills the weight buffers; holds one piece on each side while it lives."""

    def __init__(self, memory: DeviceMemory, kernels: dict[str, Kernel], weights: Weights, stream: int):
        self._memory, self._kernels, self._weights, self._stream = memory, kernels, weights, stream
        self._host = pinned_array((PIECE_BYTES,), np.uint8)
        self._piece = memory.take("loading piece", PIECE_BYTES)
        self._not_finite = pinned_array((1,), np.int32)  # a kernel's mark (packing.cuh)

    def load(self, sizes: Sizes, frame: FrameConfig, seed: int, progress: Progress) -> None:
        """``progress(tensor, done, all)`` is called before each tensor.

        ``WeightsError`` where a stored element is not finite. The kernels that pack see each one anyway.
        """
        todo = targets(sizes)
        for done, target in enumerate(todo):
            progress(target.tensor, done, len(todo) + 1)
            self._load(target)
        progress(PATCH_PROJECTION, len(todo), len(todo) + 1)
        projection = np.ascontiguousarray(patch_projection(finite(self._weights), frame, seed), np.float32)
        matrix = (sizes.decoder.hidden_size, sizes.patch_values)
        into = Target(PATCH_PROJECTION, "patch_projection", 0, matrix)
        self._upload(into, "float32", projection)
        progress(PATCH_PROJECTION, len(todo) + 1, len(todo) + 1)

    def _load(self, target: Target) -> None:
        if isinstance(self._weights, RandomWeights):
            self._generate(target, self._weights)
            return
        type_name, elements = self._weights.raw(target.tensor)
        self._upload(target, type_name, elements)

    def _upload(self, target: Target, type_name: str, elements: NDArray) -> None:
        matrix = elements.reshape(elements.shape[0], -1)
        first, last = target.rows or (0, len(matrix))
        step = _rows_a_piece(matrix.shape[1] * matrix.itemsize)
        for row in range(first, last, step):
            part = matrix[row : min(row + step, last)]
            host = self._host[: part.nbytes].view(part.dtype).reshape(part.shape)
            np.copyto(host, part)
            kind = cupy.cuda.runtime.memcpyHostToDevice
            cupy.cuda.runtime.memcpyAsync(self._piece.ptr, host.ctypes.data, part.nbytes, kind, self._stream)
            self._pack(target, type_name, row, *part.shape)
            cupy.cuda.runtime.streamSynchronize(self._stream)  # before the piece is written again
            if self._not_finite[0]:
                self._not_finite[0] = 0
                require_finite(target.tensor, type_name, host.reshape((-1, *elements.shape[1:])), row)
                raise EngineError(f"{target.tensor}: the device read what is not finite, the host has not")

    def _generate(self, target: Target, weights: RandomWeights) -> None:
        shape = tensor_shapes(weights.config)[target.tensor]
        columns = shape[1] if len(shape) > 1 else 1
        first, last = target.rows or (0, shape[0])
        key = int(tensor_key(weights.seed, target.tensor))
        scale, offset = scale_and_offset(target.tensor)
        step = _rows_a_piece(columns * 2)
        for row in range(first, last, step):
            rows = min(step, last - row)
            # A piece begins with an even element: generation is by pairs.
            begin, skip = row * columns // 2 * 2, row * columns % 2
            self._kernels["random_bfloat16"].launch(
                self._stream, (_BLOCKS, 1, 1), _THREADS, 0,
                self._piece.ptr, key, begin, rows * columns + skip, scale, offset,
            )  # fmt: skip
            self._pack(target, "bfloat16", row, rows, columns, skip)

    def _pack(self, target: Target, type_name: str, row: int, rows: int, columns: int, skip: int = 0) -> None:
        code, element = _TYPES[type_name]
        source = self._piece.ptr + skip * element
        out = self._memory[target.buffer] + target.offset
        shift = target.row_shift % (1 << 64)
        order, mark = (target.order, target.period_or_lane), self._not_finite.ctypes.data
        if target.matrix:
            kept = target.weights
            k_tiles = kept.k_tiles(target.matrix[1])
            scales = () if kept is BF16 else (out + kept.tiles_bytes(*target.matrix),)
            self._kernels[_PACKERS[kept.name]].launch(
                self._stream, (_BLOCKS, 1, 1), _THREADS, 0,
                out, *scales, source, code, row, rows, columns, k_tiles, shift, *order, mark,
            )  # fmt: skip
        else:
            self._kernels["to_float"].launch(
                self._stream, (ceil(rows / _THREADS), 1, 1), _THREADS, 0,
                out, source, code, rows, shift, *order, mark,
            )  # fmt: skip


def _rows_a_piece(row_bytes: int) -> int:
    """One row less than fit: a random piece may begin one element early."""
    return max(1, PIECE_BYTES // row_bytes - 1)
