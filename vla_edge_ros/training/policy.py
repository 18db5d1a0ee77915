# SPDX-License-Identifier: Apache-2.0
"""Sizes of the policy that is trained and shipped."""

from __future__ import annotations

from vla_edge_ros.model.decoder_config import DecoderConfig
from vla_edge_ros.sequence import Decoding
from vla_edge_ros.training.batches import PATCH
from vla_edge_ros.training.network import PolicyNetwork
from vla_edge_ros.training.rollout import MODEL_HEIGHT, MODEL_WIDTH

BINS = 255  # an odd number: the middle one is no motion
ACTION_TOKENS = 2
VOCABULARY = 512
FRAME_TOKENS = MODEL_WIDTH * MODEL_HEIGHT // PATCH**2

# The CUDA engine wants hidden sizes in multiples of 64 and heads of 64 or 128.
SIZES = DecoderConfig(
    hidden_size=128,
    intermediate_size=384,
    num_hidden_layers=4,
    num_attention_heads=2,
    num_key_value_heads=1,
    head_dim=64,
    vocab_size=VOCABULARY,
    rope_theta=1e4,
    tie_word_embeddings=False,
    max_position_embeddings=8192,
)


def new_network(decoding: Decoding) -> PolicyNetwork:
    """With random weights."""
    return PolicyNetwork(
        SIZES,
        patch_values=PATCH * PATCH * 3,
        frame_tokens=FRAME_TOKENS,
        action_tokens=ACTION_TOKENS,
        bins=BINS,
        decoding=decoding,
    )
