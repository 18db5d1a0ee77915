# SPDX-License-Identifier: Apache-2.0
"""Action tokens and action values: uniform bins, one token a dimension, as RT-2 and OpenVLA have them.

The last ``bins`` ids of the vocabulary are the action tokens, the least used ones of a text model. Their
order is OpenVLA's, downwards: bin 0, the lowest value, is the last id; bin b is the last id less b. Where
``vocab_size`` is padded beyond the tokenizer's ids, as OpenVLA's, a model may have been trained with the
tokenizer's last ids: ``action.last_token_id`` says so.

Bin centres are evenly spaced from ``low`` to ``high`` of their dimension, both ends included, which for the
default range is [-1, 1]. (OpenVLA spaces 256 edges so and uses the 255 centres between them.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vla_edge_ros.config import ActionConfig
from vla_edge_ros.errors import ConfigError, EngineError


def action_ids(config: ActionConfig, vocab_size: int) -> range:
    """The ids of the action tokens; ``ConfigError`` where the vocabulary has no room for them."""
    last = config.last_token_id or vocab_size - 1
    if last >= vocab_size:
        raise ConfigError(
            f"action.last_token_id must be below the vocabulary's size, got {last} >= {vocab_size}"
        )
    if config.bins > last:
        raise ConfigError(
            f"action.bins must leave the vocabulary a token of text, got {config.bins} up to id {last}"
        )
    return range(last - config.bins + 1, last + 1)


def answer_ids(config: ActionConfig, vocab_size: int) -> range:
    """The ids that an engine chooses from, by ``action.head``."""
    ids = action_ids(config, vocab_size)
    return range(vocab_size) if config.head == "full_vocabulary" else ids


class ActionHead:
    """Translates between the tokens of one chunk and the values of one action."""

    def __init__(self, config: ActionConfig, vocab_size: int):
        self._names = config.names
        self._low = np.array(config.low, np.float64)
        self._high = np.array(config.high, np.float64)
        self._bins = config.bins
        self._last_id = action_ids(config, vocab_size)[-1]
        self._dimensions = np.arange(len(config.names))
        # Weighted ends, not low + step * bin: both ends come out exact.
        fraction = np.arange(config.bins) / (config.bins - 1)
        self._centres = self._low[:, None] * (1.0 - fraction) + self._high[:, None] * fraction

    @property
    def first_id(self) -> int:
        """The lowest action token id, that of the highest bin."""
        return self._last_id - self._bins + 1

    def decode(self, tokens: Sequence[int]) -> NDArray[np.float64]:
        """One token a dimension -> values ``[dimensions]``.

        A token that is no action token (possible with ``action.head: full_vocabulary`` only) raises
        ``EngineError``: taken for the nearest bin it would command an extreme motion.
        """
        if len(tokens) != len(self._names):
            raise EngineError(f"expected {len(self._names)} action tokens, got {len(tokens)}")
        bins = [self._last_id - token for token in tokens]
        for name, bin_, token in zip(self._names, bins, tokens, strict=True):
            if not 0 <= bin_ < self._bins:
                raise EngineError(
                    f"expected an action token {self.first_id} to {self._last_id} for {name}, got {token}"
                )
        return self._centres[self._dimensions, bins]

    def encode(self, values: ArrayLike) -> tuple[int, ...]:
        """Values ``[dimensions]`` -> tokens of the nearest bins; values outside the range take its end."""
        wanted = np.asarray(values, np.float64)
        if wanted.shape != self._low.shape or not np.isfinite(wanted).all():
            raise ValueError(f"expected {len(self._names)} finite action values, got {values!r}")
        bin_fraction = (np.clip(wanted, self._low, self._high) - self._low) / (self._high - self._low)
        nearest = np.rint(bin_fraction * (self._bins - 1)).astype(np.int64)
        return tuple(int(token) for token in self._last_id - nearest)
