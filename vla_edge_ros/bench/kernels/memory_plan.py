# SPDX-License-Identifier: Apache-2.0
"""Device memory of the CUDA engine by format and head, from the plan alone: no device is asked.

Run ``python -m vla_edge_ros.bench.kernels.memory_plan``.
"""

from __future__ import annotations

from typing import Any

from vla_edge_ros.bench.report import print_table
from vla_edge_ros.config import ActionConfig, EngineConfig, VlaConfig
from vla_edge_ros.console import console_program
from vla_edge_ros.engines.cuda.load.memory import MB
from vla_edge_ros.engines.cuda.plan.buffers import scratch_needs
from vla_edge_ros.engines.cuda.plan.device_sizes import Device
from vla_edge_ros.engines.cuda.plan.planner import plan
from vla_edge_ros.engines.cuda.plan.weight_buffers import PIECE_BYTES, weight_needs
from vla_edge_ros.engines.cuda.plan.weight_format import FORMATS
from vla_edge_ros.model.decoder_config import QWEN2_5_CODER_1_5B

ORIN = Device("Jetson Orin, 8 GB", 87, 8, 166912, 167936)
_LAYERS = ("qkv", "output", "gate_up", "down")


def memory_rows(device: Device = ORIN) -> list[dict[str, Any]]:
    """Of Qwen2.5-Coder-1.5B with 4,096 cache slots; MB = 2^20 bytes.

    ``total_gb``: the most that is held, at start-up; ``step_mb``: weights that a decode step reads.
    """
    rows = []
    heads = ("action", "full_vocabulary")
    kinds = [(weights, head, "bf16") for weights in FORMATS for head in heads]
    for weights, head, kv in (*kinds, ("int4", "action", "int8")):
        config = VlaConfig(engine=EngineConfig(weights=weights, kv=kv), action=ActionConfig(head=head))
        sizes = plan(QWEN2_5_CODER_1_5B, config, device)
        kept, scratch = weight_needs(sizes), scratch_needs(sizes)
        layers = sum(kept[name] for name in _LAYERS)
        whole = sum(kept.values()) + sum(scratch.values())
        rows.append(
            {
                "weights": weights,
                "head": head,
                "kv": kv,
                "layers_mb": round(layers / MB),
                "embedding_mb": round(kept["embedding"] / MB),
                "kv_cache_mb": round(scratch["kv_cache"] / MB),
                "total_gb": round((whole + PIECE_BYTES) / MB / 1024, 1),
                "step_mb": round((layers + (kept["head"] or kept["embedding"])) / MB),
            }
        )
    return rows


@console_program
def main() -> None:
    print_table(memory_rows())


if __name__ == "__main__":
    main()
