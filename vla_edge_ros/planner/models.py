# SPDX-License-Identifier: Apache-2.0
"""Which sizes ``--model`` names: a preset, a size of the family that was never run here, or a folder."""

from __future__ import annotations

import os
from pathlib import Path

from vla_edge_ros.errors import ConfigError
from vla_edge_ros.model.decoder_config import PRESETS, DecoderConfig, from_hf_config
from vla_edge_ros.shipped_models import model_folder

# config.json of Qwen2.5-Coder-0.5B-Instruct, -3B-Instruct and -7B-Instruct (huggingface.co/Qwen).
_QWEN2_5_CODER_0_5B = DecoderConfig(
    hidden_size=896,
    intermediate_size=4864,
    num_hidden_layers=24,
    num_attention_heads=14,
    num_key_value_heads=2,
    head_dim=64,
    vocab_size=151936,
)
_QWEN2_5_CODER_3B = DecoderConfig(
    hidden_size=2048,
    intermediate_size=11008,
    num_hidden_layers=36,
    num_attention_heads=16,
    num_key_value_heads=2,
    head_dim=128,
    vocab_size=151936,
)
_QWEN2_5_CODER_7B = DecoderConfig(
    hidden_size=3584,
    intermediate_size=18944,
    num_hidden_layers=28,
    num_attention_heads=28,
    num_key_value_heads=4,
    head_dim=128,
    vocab_size=152064,
    tie_word_embeddings=False,
)

SIZES = {
    "qwen2.5-coder-0.5b": _QWEN2_5_CODER_0_5B,
    **PRESETS,
    "qwen2.5-coder-3b": _QWEN2_5_CODER_3B,
    "qwen2.5-coder-7b": _QWEN2_5_CODER_7B,
}


def find_model(name: str) -> DecoderConfig:
    """The sizes of a preset, or of a folder with config.json. One error line where ``name`` is neither."""
    if name in SIZES:
        return SIZES[name]
    folder = model_folder(os.path.expanduser(name))
    if not os.path.exists(folder):  # os.path, which says no of a text that can be no path, and of none
        raise ConfigError(
            f"--model must be one of {', '.join(SIZES)}, or a folder with config.json, got {name!r}"
        )
    return from_hf_config(Path(folder))
