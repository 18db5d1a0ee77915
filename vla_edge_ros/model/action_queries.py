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

from vla_edge_ros.model.own_tensors import own_tensor
from vla_edge_ros.model.patch_embedding import text_embedding_norm
from vla_edge_ros.model.tensor_shapes import ACTION_QUERIES
from vla_edge_ros.model.weights import Weights
from vla_edge_ros.sequence import Decoding, SequenceLayout


def action_queries(weights: Weights, layout: SequenceLayout, seed: int) -> NDArray[np.float32]:
    """``[n - 1, hidden]`` for n action tokens, rounded to bfloat16; no rows in autoregressive decoding."""
    count = layout.action_tokens - 1 if layout.decoding is Decoding.PARALLEL else 0
    shape = (count, weights.config.hidden_size)
    if not count:
        return np.empty(shape, np.float32)
    scale = text_embedding_norm(weights) / math.sqrt(shape[1])
    what = "(a row for each action token but the last)"
    return own_tensor(weights, ACTION_QUERIES, shape, what, seed, scale)
