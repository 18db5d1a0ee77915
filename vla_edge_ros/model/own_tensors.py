# SPDX-License-Identifier: Apache-2.0
"""Tensors that this package adds to a checkpoint (``vla.*``): taken where they are stored, else made.

A made one is seeded random, so that a text model runs; it means nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.errors import WeightsError
from vla_edge_ros.model.bfloat16 import bfloat16_to_float32, round_to_bfloat16
from vla_edge_ros.model.random_weights import random_bfloat16
from vla_edge_ros.model.weights import Weights


def own_tensor(
    weights: Weights, name: str, shape: tuple[int, int], what: str, seed: int, made_scale: float
) -> NDArray[np.float32]:
    """``name`` of ``shape``, rounded to bfloat16; ``WeightsError`` where it is stored in another one.

    ``what`` says in the error what the shape is for. ``made_scale``: standard deviation of a made one.
    """
    if not weights.has(name):
        bits = random_bfloat16(seed, name, 0, shape[0] * shape[1], made_scale)
        return bfloat16_to_float32(bits).reshape(shape)
    stored = weights.tensor(name)
    if stored.shape != shape:
        raise WeightsError(f"{name} must have shape {list(shape)} {what}, got {list(stored.shape)}")
    return round_to_bfloat16(stored)
