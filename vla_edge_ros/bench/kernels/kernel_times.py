# SPDX-License-Identifier: Apache-2.0
"""Each kernel family alone: all layers' launches of it in one graph, so that no weights come from a cache.

A family's time includes its hand-over to the next launch, a part of which the next one's weights hide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vla_edge_ros.engines.cuda.engine import CudaEngine
from vla_edge_ros.engines.cuda.plan.weight_buffers import layer_offsets
from vla_edge_ros.engines.cuda.run.graphs import TimedGraph

REPEATS = 20


def kernel_rows(engine: CudaEngine, slots: int, streaming_read: float) -> list[dict[str, Any]]:
    """Microseconds a layer, bytes that must be read, and their share of ``streaming_read`` (bytes a second).

    The engine must have run a chunk over ``slots``: attention reads the pages of that chunk.
    """
    layers, decoder = engine.sizes.decoder.num_hidden_layers, engine.sizes.decoder
    size = layer_offsets(engine.sizes)
    need = {
        "qkv": size.qkv,
        "attention": 2 * decoder.num_key_value_heads * engine.sizes.kv.page_bytes(slots, decoder.head_dim),
        "output": size.output,
        "gate_up": size.gate_up,
        "down": size.down,
    }
    rows = []
    for name in engine.passes:
        for family, launch in _families(engine, name).items():

            def all_layers(launch: Callable[[int], None] = launch) -> None:
                for layer in range(layers):
                    launch(layer)

            graph = TimedGraph(engine.stream, all_layers)
            layer_us = float(np.median([graph.run() for _ in range(REPEATS)])) * 1e3 / layers
            rate = need[family] / layer_us * 1e6
            rows.append(
                {
                    "pass": name,
                    "kernels": family,
                    "layer_us": layer_us,
                    "read_mb": need[family] / 1e6,
                    "tb_s": rate / 1e12,
                    "share_of_streaming_read": rate / streaming_read,
                }
            )
    return rows


def _families(engine: CudaEngine, name: str) -> dict[str, Callable[[int], None]]:
    run, stream, variant = engine.passes[name], engine.stream.ptr, engine.sizes.passes[name]
    memory = engine.buffers
    a, b = memory[f"{name}_residual_a"], memory[f"{name}_residual_b"]
    into_layer = run.residual(a, "down_partials", variant.down.split_k)
    between = run.residual(b, "output_partials", variant.output.split_k)
    return {
        "qkv": lambda layer: run.launch_qkv(stream, layer, into_layer, b),
        "attention": lambda layer: run.launch_attention(stream, layer),
        "output": lambda layer: run.launch_output(stream, layer),
        "gate_up": lambda layer: run.launch_gate_up(stream, layer, between, a),
        "down": lambda layer: run.launch_down(stream, layer),
    }
