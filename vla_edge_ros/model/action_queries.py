# SPDX-License-Identifier: Apache-2.0
"""Learned query tokens: the input rows from which a model gives all tokens of an action in one pass.

They stand behind the frame and its suffix, where the action's tokens but the last would stand in
autoregressive decoding. As there, the first token is chosen from the row before them and each further one
from the query in the place of the token before it (parallel decoding as in OpenVLA-OFT, arXiv 2502.19645,
here with the causal attention of the decoder). So the pass is the one that verifies a draft, with other rows.

They are the tensor ``vla.action_queries``, ``[action tokens - 1, hidden]``, of a checkpoint that was trained
so, or seeded random rows as long as a text embedding.
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


def action_queries(weights: Weights, layout: SequenceLayout, seed: int) -> NDArray[np.float32]:
    """``[n - 1, hidden]`` for n action tokens, rounded to bfloat16; no rows in autoregressive decoding."""
    count = layout.action_tokens - 1 if layout.decoding is Decoding.PARALLEL else 0
    shape = (count, weights.config.hidden_size)
    if not count:
        return np.empty(shape, np.float32)
    if not weights.has(ACTION_QUERIES):
        scale = text_embedding_norm(weights) / math.sqrt(shape[1])
        bits = random_bfloat16(seed, ACTION_QUERIES, 0, shape[0] * shape[1], scale)
        return bfloat16_to_float32(bits).reshape(shape)
    stored = weights.tensor(ACTION_QUERIES)
    if stored.shape != shape:
        raise WeightsError(
            f"{ACTION_QUERIES} must have shape {list(shape)}, a row for each action token but the last, "
            f"got {list(stored.shape)}"
        )
    return round_to_bfloat16(stored)
