# SPDX-License-Identifier: Apache-2.0
"""Seeded weights with what trained decoders have and normal numbers have not: outliers.

Made, not trained. Three traits that make quantising hard are put on top of ``RandomWeights``, after what is
known of trained models (LLM.int8(), arXiv 2208.07339; SmoothQuant, arXiv 2211.10438). Stronger ones make a
network that was never trained so unstable that every format fails alike.


- a few channels of the residual stream are many times larger than the others: the same rows of embedding,
  attention output and down projection are scaled up, and the norms' gains of these channels are not reduced;
- a few inputs of each matrix are larger: one column in 64 is scaled up, so a group of 128 has values that set
  its scale and values that live in its lowest steps;
- tails are heavy: every value is multiplied by a log-normal factor.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.model.bfloat16 import bfloat16_to_float32, float32_to_bfloat16
from vla_edge_ros.model.decoder_config import DecoderConfig
from vla_edge_ros.model.random_weights import RandomWeights, normal, tensor_key
from vla_edge_ros.model.tensor_shapes import EMBEDDING, tensor_shapes

RESIDUAL_CHANNELS, RESIDUAL_SCALE = 4, 8.0
COLUMN_PERIOD, COLUMN_SCALE = 64, 3.0
TAIL = 0.25  # standard deviation of the factor's logarithm
_WRITES_RESIDUAL = ("o_proj.weight", "down_proj.weight")


class OutlierWeights:
    """``model.weights.Weights`` of small sizes; nothing is kept."""

    def __init__(self, config: DecoderConfig, seed: int):
        self.config = config
        self._plain = RandomWeights(config, seed)
        self._seed = seed
        rng = np.random.default_rng(seed)
        self.channels = rng.choice(config.hidden_size, RESIDUAL_CHANNELS, replace=False)

    def has(self, name: str) -> bool:
        return self._plain.has(name)

    def raw(self, name: str) -> tuple[str, NDArray[np.uint16]]:
        return "bfloat16", float32_to_bfloat16(self._values(name))

    def tensor(self, name: str) -> NDArray[np.float32]:
        return bfloat16_to_float32(self.raw(name)[1])

    def rows(self, name: str, indices: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float32]:
        return self.tensor(name)[np.asarray(indices, np.int64)]

    def _values(self, name: str) -> NDArray[np.float32]:
        values = self._plain.tensor(name).copy()
        if len(tensor_shapes(self.config)[name]) == 1:
            return values
        key = tensor_key(self._seed, f"{name} tail")
        values *= np.exp(TAIL * normal(key, 0, values.size)).reshape(values.shape).astype(np.float32)
        if name == EMBEDDING:
            values[:, self.channels] *= RESIDUAL_SCALE
            return values
        first = int(key) % COLUMN_PERIOD
        values[:, first::COLUMN_PERIOD] *= COLUMN_SCALE
        if name.endswith(_WRITES_RESIDUAL):
            values[self.channels] *= RESIDUAL_SCALE
        return values
