# SPDX-License-Identifier: Apache-2.0
"""Learned query tokens: the input rows from which a model gives all tokens of an action in one pass.

Row i stands where action token i - 1 would stand in autoregressive decoding, behind the frame and the suffix,
and the token chosen from it is action token i (parallel decoding as in OpenVLA-OFT, arXiv 2502.19645, here
with the causal attention of the decoder). They are the tensor ``vla.action_queries``, ``[action tokens,
hidden]``, of a checkpoint that was trained so, or seeded random rows as long as a text embedding.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.errors import WeightsError
from vla_edge_ros.model.bfloat16 import bfloat16_to_float32, round_to_bfloat16
from vla_edge_ros.model.patch_embedding import text_embedding_norm
from vla_edge_ros.model.random_weights import random_bfloat16
from vla_edge_ros.model.weights import Weights
from vla_edge_ros.sequence import Decoding, SequenceLayout

ACTION_QUERIES = "vla.action_queries"


def action_queries(weights: Weights, layout: SequenceLayout, seed: int) -> NDArray[np.float32] | None:
    """``[action tokens, hidden]``, every value rounded to bfloat16; None where tokens are decoded in turn."""
    if layout.decoding is not Decoding.PARALLEL:
        return None
    shape = (layout.action_tokens, weights.config.hidden_size)
    if not weights.has(ACTION_QUERIES):
        scale = text_embedding_norm(weights) / math.sqrt(shape[1])
        bits = random_bfloat16(seed, ACTION_QUERIES, 0, shape[0] * shape[1], scale)
        return bfloat16_to_float32(bits).reshape(shape)
    stored = weights.tensor(ACTION_QUERIES)
    if stored.shape != shape:
        raise WeightsError(
            f"{ACTION_QUERIES} must have shape {list(shape)}, a row for each action token, "
            f"got {list(stored.shape)}"
        )
    return round_to_bfloat16(stored)
