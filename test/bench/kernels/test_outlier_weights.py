# SPDX-License-Identifier: Apache-2.0
"""The made-up outliers are where trained models have them, and hurt a quantiser as theirs do."""

from __future__ import annotations

import numpy as np

from vla_edge_ros.bench.kernels.outlier_weights import COLUMN_PERIOD, OutlierWeights
from vla_edge_ros.model.decoder_config import TINY
from vla_edge_ros.model.quantise import round_trip
from vla_edge_ros.model.random_weights import RandomWeights
from vla_edge_ros.model.tensor_shapes import EMBEDDING, tensor_shapes

DOWN = "model.layers.0.mlp.down_proj.weight"


def test_the_same_seed_gives_the_same_bits_and_every_tensor_has_its_shape():
    weights = OutlierWeights(TINY, 1)
    for name, shape in tensor_shapes(TINY).items():
        assert weights.has(name) and weights.tensor(name).shape == shape
        np.testing.assert_array_equal(weights.tensor(name), OutlierWeights(TINY, 1).tensor(name))
    assert not np.array_equal(weights.tensor(DOWN), OutlierWeights(TINY, 2).tensor(DOWN))
    np.testing.assert_array_equal(weights.rows(EMBEDDING, [5, 2]), weights.tensor(EMBEDDING)[[5, 2]])


def test_a_few_channels_and_columns_stand_out():
    weights = OutlierWeights(TINY, 1)
    rms = np.sqrt((weights.tensor(EMBEDDING) ** 2).mean(axis=0))
    others = np.delete(rms, weights.channels)
    assert rms[weights.channels].min() > 3 * others.max()
    rms = np.sqrt((weights.tensor(DOWN) ** 2).mean(axis=1))
    assert rms[weights.channels].min() > 3 * np.delete(rms, weights.channels).max()
    columns = np.sqrt((np.delete(weights.tensor(DOWN), weights.channels, axis=0) ** 2).mean(axis=0))
    assert (columns > 2 * np.median(columns)).sum() == TINY.intermediate_size // COLUMN_PERIOD


def test_they_cost_a_quantiser_more_than_normal_weights_do():
    def error(weights):
        matrix = weights.tensor(DOWN)
        return np.linalg.norm(round_trip(matrix, "int4") - matrix) / np.linalg.norm(matrix)

    assert error(OutlierWeights(TINY, 1)) > 1.2 * error(RandomWeights(TINY, 1))
