# SPDX-License-Identifier: Apache-2.0
"""The vision front end: a linear projection of square patches, as ViT has it, without bias.

A frame's patches are taken row by row; inside a patch come its pixel rows from the top, in a row its pixels
from the left, for a pixel red, green, blue. A channel value ``p`` of 0..255 enters as ``p / 127.5 - 1``.

The projection is seeded random (name ``vla.patch_projection``, see ``random_weights``), unless the checkpoint
has a tensor of that name, ``[hidden, patch * patch * 3]``. Its scale makes a patch token as long as a text
embedding: with rows of standard deviation 1 / sqrt(in) it would be several times longer than the trained
embeddings the decoder expects, and the residual stream would hold little else.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.config import FrameConfig
from vla_edge_ros.model.own_tensors import own_tensor
from vla_edge_ros.model.tensor_shapes import EMBEDDING, PATCH_PROJECTION
from vla_edge_ros.model.weights import Weights

# The reference input: patches whose values in [-1, 1] have this root mean square. Eight real clips (kitchen
# robot arms, roads, a conveyor belt) have means of 0.22 to 0.52 a clip; this is the geometric middle.
# Uniform noise would be 0.58.
REFERENCE_PATCH_RMS = 0.35
_SAMPLED_ROWS = 1024  # text embedding rows whose mean norm is taken, spread evenly over the vocabulary


def patch_size_in(frame: FrameConfig) -> int:
    """Values of one patch."""
    return frame.patch_size * frame.patch_size * 3


def text_embedding_norm(weights: Weights) -> float:
    """Mean Euclidean norm of evenly spread text embedding rows."""
    vocabulary = weights.config.vocab_size
    sampled = np.linspace(0, vocabulary - 1, min(_SAMPLED_ROWS, vocabulary)).astype(np.int64)
    rows = weights.rows(EMBEDDING, sampled).astype(np.float64)
    return float(np.mean(np.sqrt(np.sum(rows * rows, axis=1))))


def patch_projection(weights: Weights, frame: FrameConfig, seed: int) -> NDArray[np.float32]:
    """``[hidden, patch * patch * 3]``; every value is rounded to bfloat16.

    A patch ``x`` of n values becomes a token of norm ``s * sqrt(hidden) * |x|`` on average, with ``s`` the
    standard deviation and ``|x| = REFERENCE_PATCH_RMS * sqrt(n)``; ``s`` follows from the wanted norm.
    """
    shape = (weights.config.hidden_size, patch_size_in(frame))
    hidden, size_in = shape
    scale = text_embedding_norm(weights) / (math.sqrt(hidden * size_in) * REFERENCE_PATCH_RMS)
    what = f"for patches of {frame.patch_size} pixels"
    return own_tensor(weights, PATCH_PROJECTION, shape, what, seed, scale)
