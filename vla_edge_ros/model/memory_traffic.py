# SPDX-License-Identifier: Apache-2.0
"""What a chunk must read from memory, and so the least time that it can take on a device.

A forward pass over few tokens reads every weight once and computes little with it. However good the kernels
are, a chunk cannot end before its bytes have come from memory.
"""

from __future__ import annotations

import math

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.model import kept_kv
from vla_edge_ros.model.decoder_config import DecoderConfig
from vla_edge_ros.model.quantise import GROUP, format_of
from vla_edge_ros.model.tensor_shapes import EMBEDDING, LM_HEAD, tensor_shapes

_BFLOAT16 = 2.0
# Of one number, its share of a scale included; an int8 row's is too little to count.
_BYTES = {"bf16": _BFLOAT16, "int8": 1.0, "int4": 0.5 + _BFLOAT16 / GROUP}
_KV_BYTES = {"bf16": _BFLOAT16, "int8": 1.0 + _BFLOAT16 / kept_kv.GROUP}


def bytes_a_chunk(decoder: DecoderConfig, config: VlaConfig, bytes_a_number: float | None = None) -> float:
    """Bytes of weights, and of keys and values in a full cache, that one chunk reads.

    The prefill and the decode steps of the layout, each over all layers and the rows of the head.
    ``bytes_a_number``: of all numbers alike, 4 for float32; else what the two formats of ``engine`` keep.
    """

    def size(name: str) -> float:
        return bytes_a_number or _BYTES[format_of(name, config.engine.weights)]

    layers = sum(
        math.prod(shape) * size(name)
        for name, shape in tensor_shapes(decoder).items()
        if name not in (EMBEDDING, LM_HEAD)
    )
    rows = config.action.bins if config.action.head == "action" else decoder.vocab_size
    kept = 2 * decoder.num_hidden_layers * decoder.kv_size * config.cache.capacity_slots
    head = rows * decoder.hidden_size * size(LM_HEAD)
    return (config.layout.decode_steps + 1) * (
        layers + head + kept * (bytes_a_number or _KV_BYTES[config.engine.kv])
    )


def floor_ms(
    decoder: DecoderConfig, config: VlaConfig, bytes_a_second: float, bytes_a_number: float | None = None
) -> float:
    """The least time of a chunk where memory gives ``bytes_a_second``."""
    return 1000 * bytes_a_chunk(decoder, config, bytes_a_number) / bytes_a_second
