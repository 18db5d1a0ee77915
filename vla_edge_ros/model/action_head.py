# SPDX-License-Identifier: Apache-2.0
"""Action tokens and action values: uniform bins, one token a dimension, as RT-2 and OpenVLA have them.

The last ``bins`` ids of the vocabulary are the action tokens, the least used ones of a text model. Their
order is OpenVLA's, downwards: bin 0, the lowest value, is the last id; bin b is the last id less b. Where
``vocab_size`` is padded beyond the tokenizer's ids, as OpenVLA's, a model may have been trained with the
tokenizer's last ids: ``action.last_token_id`` says so.

``action.bin_rule`` says what a bin stands for. ``edges``: the values are evenly spaced from ``low`` to
``high`` of their dimension, both ends included, so that an even number of bins over a symmetric range has no
zero. ``centres``, as in OpenVLA: ``low`` and ``high`` are the outermost of ``bins`` evenly spaced edges, and
the values are the ``bins - 1`` centres between them; the two lowest ids share the highest one (openvla
``prismatic/vla/action_tokenizer.py``: ``digitize`` has 256 answers for 255 intervals).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vla_edge_ros.action_config import CENTRES, POSITION
from vla_edge_ros.config import ActionConfig
from vla_edge_ros.errors import ConfigError, EngineError
from vla_edge_ros.model.action_statistics import with_statistics


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
    """Translates between the tokens of one chunk and the values of one action, in physical units.

    Raises ``ConfigError`` where the vocabulary has no room for the tokens, or for a statistics file that does
    not describe this action.
    """

    def __init__(self, config: ActionConfig, vocab_size: int):
        self._last_id = action_ids(config, vocab_size)[-1]
        config = with_statistics(config)
        self._names = config.names
        self._low = np.array(config.low, np.float64)
        self._high = np.array(config.high, np.float64)
        self._bins = config.bins
        self._has_centres = config.bin_rule == CENTRES
        self._dimensions = np.arange(len(config.names))
        # Weighted ends, not low + step * bin: both ends come out exact.
        intervals = config.bins - 1
        fraction = np.arange(config.bins) / intervals
        if self._has_centres:
            fraction = (2 * np.minimum(np.arange(config.bins), intervals - 1) + 1) / (2 * intervals)
        self._values = self._low[:, None] * (1.0 - fraction) + self._high[:, None] * fraction
        # A share of a width more: zero half-way between two bins is half a width from both, to rounding.
        band = (self._high - self._low) / intervals * config.dead_band_bins * (1 + 1e-9)
        moves = np.array([kind != POSITION for kind in config.kinds])
        self._values[moves[:, None] & (np.abs(self._values) <= band[:, None])] = 0.0

    @property
    def first_id(self) -> int:
        """The lowest action token id, that of the highest bin."""
        return self._last_id - self._bins + 1

    @property
    def nearest_to_zero(self) -> NDArray[np.float64]:
        """The smallest magnitude that a token stands for, ``[dimensions]``; above 0: none says 0."""
        return np.abs(self._values).min(axis=1)

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
        return self._values[self._dimensions, bins]

    def encode(self, values: ArrayLike) -> tuple[int, ...]:
        """Values ``[dimensions]`` -> tokens of the nearest bins; values outside the range take its end."""
        wanted = np.asarray(values, np.float64)
        if wanted.shape != self._low.shape or not np.isfinite(wanted).all():
            raise ValueError(f"expected {len(self._names)} finite action values, got {values!r}")
        # A dimension with one value has no width: any bin is that value, and it takes the first.
        width = np.where(self._high > self._low, self._high - self._low, 1.0)
        place = (np.clip(wanted, self._low, self._high) - self._low) / width * (self._bins - 1)
        # The interval that a value lies in, or the nearest of the evenly spaced values.
        bins = (np.floor(place) if self._has_centres else np.rint(place)).astype(np.int64)
        return tuple(int(token) for token in self._last_id - bins)
