# SPDX-License-Identifier: Apache-2.0
"""The launches of one prefill, one decode step, one frame's embedding: the model as a list of kernels.

Every launch reads what its predecessor wrote and starts early to fetch its weights (common.cuh), so the order
here is the only synchronisation there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

import cupy
import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.engines.cuda.load.kernels import DecodeLayers, Kernel, LayerStride, Residual
from vla_edge_ros.engines.cuda.load.memory import DeviceMemory
from vla_edge_ros.engines.cuda.plan.buffers import kv_layer_bytes
from vla_edge_ros.engines.cuda.plan.projection_tiling import GEMM_THREADS
from vla_edge_ros.engines.cuda.plan.sizes import Sizes
from vla_edge_ros.engines.cuda.plan.weight_buffers import head_is_embedding, layer_offsets

NORM_THREADS = 256
COMBINE_WARPS = 4


class Pass:
    """All layers over one kind of pass's tokens, then the head: over the last token, or over all drafts."""

    def __init__(
        self,
        name: str,
        sizes: Sizes,
        kernels: Mapping[str, dict[str, Kernel]],
        memory: DeviceMemory,
        tokens_out: int,
        status_out: int,
    ):
        """``kernels``: those of all passes, by the pass's name; the last two are page-locked host memory."""
        self._name, self._sizes, self._variant = name, sizes, sizes.passes[name]
        self._kernels, self._memory = kernels[name], memory
        self._tokens_out, self._status_out = tokens_out, status_out
        self._single = self._variant.rows.single
        self._drafts = name in ("drafted", "verify")
        self._head_kernels = kernels["verify" if self._drafts else "decode"]
        self._state = memory[f"{name}_state"]
        self._offsets = layer_offsets(sizes)
        # Small blocks that start early would gather on the few multiprocessors that are free then, up to 16
        # on one, and wait for each other's loads. So much shared memory, unused, keeps them apart.
        self._spread_bytes = sizes.device.shared_bytes // 2

    def _own(self, buffer: str) -> int:
        return self._memory[f"{self._name}_{buffer}"]

    def residual(self, stream: int, partials: str, split_k: int) -> Residual:
        stride = self._variant.tokens * self._sizes.decoder.hidden_size
        return Residual(stream, self._own(partials), split_k, stride)

    def launch(self, stream: int, first: int) -> None:
        """``first``: address of the layers' input, ``[tokens][hidden]`` in float32."""
        a, b = self._own("residual_a"), self._own("residual_b")
        into_layer = self.residual(first, "down_partials", 0)
        for layer in range(self._sizes.decoder.num_hidden_layers):
            self.launch_qkv(stream, layer, into_layer, b)
            self.launch_attention(stream, layer)
            self.launch_output(stream, layer)
            between = self.residual(b, "output_partials", self._variant.output.split_k)
            self.launch_gate_up(stream, layer, between, a)
            self.launch_down(stream, layer)
            into_layer = self.residual(a, "down_partials", self._variant.down.split_k)
        if self._drafts:
            self.launch_draft_head(stream, into_layer)
        else:
            self.launch_head(stream, into_layer)

    def launch_persistent(self, stream: int, first: int, cancelled: int, stop: int, times: int = 0) -> None:
        """``launch`` with all layers in one kernel, for a decode step.

        In page-locked host memory: ``cancelled``, set to 1 + the grid barrier that timed out or to
        ``STOPPED``, and ``stop``, nonzero to stop it. ``times``: for a kernel compiled with PHASE_TIMES.
        """
        memory, kernel, persistent = self._memory, self._kernels["decode_layers"], self._sizes.persistent
        assert persistent is not None
        page_bytes = 2 * kv_layer_bytes(self._sizes)
        at = self._offsets
        arguments = DecodeLayers(
            qkv=memory["qkv"],
            output=memory["output"],
            gate_up=memory["gate_up"],
            down=memory["down"],
            norms=memory["norms"],
            bias=memory["qkv_bias"],
            pages=memory["kv_cache"],
            rotary=memory["rotary"],
            state=self._state,
            input=first,
            residual_out=self._own("residual_a"),
            queries=self._own("queries"),
            attended=self._own("attended"),
            softmax=self._own("softmax"),
            output_partials=self._own("output_partials"),
            activated=self._own("activated"),
            down_partials=self._own("down_partials"),
            barriers=memory["barriers"],
            cancelled=cancelled,
            stop=stop,
            times=times,
            stride=LayerStride(at.qkv, at.output, at.gate_up, at.down, page_bytes),
        )
        kernel.launch(stream, (persistent.blocks, 1, 1), GEMM_THREADS, persistent.shared_bytes, arguments)
        self.launch_head(
            stream, self.residual(self._own("residual_a"), "down_partials", self._variant.down.split_k)
        )

    def _norm(self, stream: int, layer_norm: int, residual: Residual, residual_out: int) -> None:
        """Prefill only: a decode step normalises inside the projection."""
        self._kernels["residual_rms_norm"].launch(
            stream, (self._variant.tokens, 1, 1), NORM_THREADS, self._spread_bytes,
            self._own("operand"), residual_out, residual, self._norm_weight(layer_norm),
        )  # fmt: skip

    def _norm_weight(self, index: int) -> int:
        return self._memory["norms"] + index * self._offsets.norm

    def _keys_and_values(self, layer: int) -> tuple[int, int]:
        size = kv_layer_bytes(self._sizes)
        keys = self._memory["kv_cache"] + 2 * layer * size
        return keys, keys + size

    def launch_qkv(self, stream: int, layer: int, residual: Residual, residual_out: int) -> None:
        if not self._single:
            self._norm(stream, 2 * layer, residual, residual_out)
        tiling = self._variant.qkv
        keys, values = self._keys_and_values(layer)
        self._kernels["qkv_projection"].launch(
            stream, tiling.grid, GEMM_THREADS, tiling.shared_bytes,
            self._own("queries"), keys, values, residual_out, residual, self._own("operand"),
            self._norm_weight(2 * layer), self._memory["qkv"] + layer * self._offsets.qkv,
            self._memory["qkv_bias"] + layer * self._offsets.bias, self._memory["rotary"], self._state,
        )  # fmt: skip

    def launch_attention(self, stream: int, layer: int) -> None:
        tiling, decoder = self._variant.attention, self._sizes.decoder
        keys, values = self._keys_and_values(layer)
        grid = (tiling.split_blocks, decoder.num_key_value_heads, tiling.row_groups)
        self._kernels["attention"].launch(
            stream, grid, tiling.threads, tiling.shared_bytes,
            self._own("attended"), self._own("softmax"), self._own("queries"), keys, values,
            self._memory["rotary"], self._state,
        )  # fmt: skip
        if not self._single:
            rows = self._variant.tokens * decoder.num_attention_heads
            self._kernels["combine_attention"].launch(
                stream, (ceil(rows / COMBINE_WARPS), 1, 1), COMBINE_WARPS * 32, self._spread_bytes,
                self._own("operand"), self._own("attended"), self._own("softmax"), self._state,
            )  # fmt: skip

    def launch_output(self, stream: int, layer: int) -> None:
        tiling = self._variant.output
        self._kernels["output_projection"].launch(
            stream, tiling.grid, GEMM_THREADS, tiling.shared_bytes,
            self._own("output_partials"), self._own("attended"), self._own("softmax"), self._own("operand"),
            self._memory["output"] + layer * self._offsets.output, self._state,
        )  # fmt: skip

    def launch_gate_up(self, stream: int, layer: int, residual: Residual, residual_out: int) -> None:
        if not self._single:
            self._norm(stream, 2 * layer + 1, residual, residual_out)
        tiling = self._variant.gate_up
        self._kernels["gate_up_swiglu"].launch(
            stream, tiling.grid, GEMM_THREADS, tiling.shared_bytes,
            self._own("activated"), residual_out, residual, self._own("operand"),
            self._norm_weight(2 * layer + 1), self._memory["gate_up"] + layer * self._offsets.gate_up,
        )  # fmt: skip

    def launch_down(self, stream: int, layer: int) -> None:
        tiling = self._variant.down
        self._kernels["down_projection"].launch(
            stream, tiling.grid, GEMM_THREADS, tiling.shared_bytes,
            self._own("down_partials"), self._own("activated"),
            self._memory["down"] + layer * self._offsets.down,
        )  # fmt: skip

    def _head(self) -> int:
        return self._memory["embedding" if head_is_embedding(self._sizes) else "head"]

    def _final_norm(self) -> int:
        return self._norm_weight(2 * self._sizes.decoder.num_hidden_layers)

    def launch_head(self, stream: int, residual: Residual) -> None:
        """Logits of the last live token, the best one, and its embedding as the next decode step's input."""
        memory, tiling = self._memory, self._sizes.decode.head
        self._head_kernels["action_head"].launch(
            stream, tiling.grid, GEMM_THREADS, tiling.shared_bytes,
            memory["logits"], memory["candidates"], memory["status"], residual,
            self._final_norm(), self._head(), self._state,
        )  # fmt: skip
        self._head_kernels["select_token"].launch(
            stream, (1, 1, 1), GEMM_THREADS, 0,
            self._tokens_out, self._status_out, memory["next_token"], memory["candidates"],
            tiling.blocks, memory["status"], memory["embedding"], self._state if self._single else None,
        )  # fmt: skip

    def launch_draft_head(self, stream: int, residual: Residual) -> None:
        """The best token behind each live action token, and behind the frame where there is one."""
        memory, tiling = self._memory, self._sizes.passes["verify"].head
        rows, operand = self._sizes.draft_tokens, memory["verify_operand"]
        self._head_kernels["draft_norm"].launch(
            stream, (rows, 1, 1), GEMM_THREADS, 0,
            operand, memory["draft_status"], residual, self._final_norm(), self._variant.rows.frame,
            self._state,
        )  # fmt: skip
        self._head_kernels["draft_logits"].launch(
            stream, tiling.grid, GEMM_THREADS, tiling.shared_bytes,
            memory["draft_logits"], memory["draft_candidates"], operand, self._head(),
        )  # fmt: skip
        self._head_kernels["select_drafts"].launch(
            stream, (1, 1, 1), rows * 32, 0,
            self._tokens_out, self._status_out, memory["draft_candidates"], tiling.blocks,
            memory["draft_status"],
        )  # fmt: skip


def launch_embed_drafts(
    stream: int, sizes: Sizes, kernels: Mapping[str, Kernel], memory: DeviceMemory
) -> None:
    """The embeddings of ``draft_ids`` as the layers' input, in the rows behind the frame's."""
    embed_ids(stream, kernels, memory, draft_rows(sizes, memory), memory["draft_ids"], sizes.draft_tokens)


def embed_ids(
    stream: int, kernels: Mapping[str, Kernel], memory: DeviceMemory, target: int, ids: int, count: int
) -> None:
    """Rows of the embedding matrix for ``ids`` ``[count]``; ``target`` and ``ids`` are device addresses."""
    kernels["embed_tokens"].launch(stream, (count, 1, 1), NORM_THREADS, 0, target, ids, memory["embedding"])


def draft_rows(sizes: Sizes, memory: DeviceMemory) -> int:
    """Address of the drafts' rows in the layers' input."""
    return memory["tokens_in"] + sizes.prefill.tokens * sizes.decoder.hidden_size * 4


def set_draft_rows(
    sizes: Sizes, memory: DeviceMemory, rows: NDArray[np.float32], stream: cupy.cuda.Stream
) -> None:
    """Keep ``rows`` ``[n, hidden]``, and zeros behind them, as the rows behind every frame."""
    shape = (sizes.prefill.tokens + sizes.draft_tokens, sizes.decoder.hidden_size)
    behind = memory.array("tokens_in", np.float32, shape)[sizes.prefill.tokens :]
    behind[: len(rows)].set(np.ascontiguousarray(rows), stream)
    behind[len(rows) :].fill(0)


def launch_embed_frame(
    stream: int, sizes: Sizes, kernels: Mapping[str, Kernel], memory: DeviceMemory, pooled_out: int
) -> None:
    """Pixels to vision tokens, and their mean to page-locked host memory.

    The rows of a frame of one page go where its pass reads them; those of a larger one to ``frame_rows``.
    """
    tiling, hidden, at_once = sizes.prefill.patch, sizes.decoder.hidden_size, sizes.prefill.tokens
    rows = memory["frame_rows" if sizes.layout.frame_pages > 1 else "tokens_in"]
    for first in range(0, sizes.frame_passes * at_once, at_once):
        kernels["patch_operand"].launch(
            stream, (at_once, 1, 1), NORM_THREADS, 0, memory["patches"], memory["pixels"], first
        )
        kernels["patch_projection"].launch(
            stream, tiling.grid, GEMM_THREADS, tiling.shared_bytes,
            rows + first * hidden * 4, memory["patches"], memory["patch_projection"],
        )  # fmt: skip
    kernels["pool_tokens"].launch(
        stream, (ceil(hidden / NORM_THREADS), 1, 1), NORM_THREADS, 0, pooled_out, rows
    )
