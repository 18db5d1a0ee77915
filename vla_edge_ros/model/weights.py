# SPDX-License-Identifier: Apache-2.0
"""Where a decoder's tensors come from: a Hugging Face folder or a seed, behind one small view.

An engine reads tensor by tensor and keeps what it makes of each; the view itself holds no copy. The CUDA
engine uploads ``raw`` bytes; the NumPy engine takes ``tensor``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.config import ModelSource
from vla_edge_ros.model.checkpoint import CheckpointWeights
from vla_edge_ros.model.decoder_config import DecoderConfig, resolve
from vla_edge_ros.model.random_weights import RandomWeights


class Weights(Protocol):
    """Tensors by Hugging Face name; ``tensor_shapes(config)`` lists those that always exist.

    Raises ``WeightsError`` for a tensor that is missing or has another shape or type than expected.
    """

    config: DecoderConfig

    def has(self, name: str) -> bool:
        """Whether there is such a tensor (for the optional ones)."""
        ...

    def raw(self, name: str) -> tuple[str, NDArray[np.generic]]:
        """``(type, elements)``: ``bfloat16`` as uint16 bits, ``float16`` or ``float32``; mapped if stored."""
        ...

    def tensor(self, name: str) -> NDArray[np.float32]:
        """The whole tensor in float32; may be read-only."""
        ...

    def rows(self, name: str, indices: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float32]:
        """Some rows of a matrix in float32, without touching the others."""
        ...


def open_weights(source: ModelSource) -> Weights:
    """The weights that ``model.path``, or else ``model.preset`` and ``model.seed``, name."""
    config = resolve(source)
    if source.path:
        return CheckpointWeights(source.path, config)
    return RandomWeights(config, source.seed)
