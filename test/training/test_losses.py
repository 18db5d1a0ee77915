# SPDX-License-Identifier: Apache-2.0
"""Losses against NumPy in float64, and bins against the head that decodes them."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs PyTorch")

from vla_edge_ros.config import ActionConfig  # noqa: E402
from vla_edge_ros.model.action_head import ActionHead  # noqa: E402
from vla_edge_ros.training.losses import (  # noqa: E402
    AUXILIARY_WEIGHT,
    SPOT_WEIGHT,
    Labels,
    action_ids,
    loss_of,
    velocity_of,
)
from vla_edge_ros.training.network import Outputs  # noqa: E402

BINS, VOCABULARY = 255, 512


def test_ids_are_those_that_the_node_decodes_to_the_nearest_velocity():
    config = ActionConfig(
        names=("vx", "vy"), low=(-0.4,) * 2, high=(0.4,) * 2, kinds=("rate",) * 2, bins=BINS
    )
    head = ActionHead(config, VOCABULARY)
    velocity = torch.rand(200, 2, dtype=torch.float64) * 2 - 1
    ids = action_ids(velocity, BINS, VOCABULARY)
    for row, tokens in zip(velocity.numpy(), ids.tolist(), strict=True):
        assert np.abs(head.decode(tokens) - 0.4 * row).max() <= 0.4 / (BINS - 1) + 1e-12
    assert head.decode(action_ids(torch.zeros(2), BINS, VOCABULARY).tolist()).tolist() == [0.0, 0.0]


def test_the_velocity_of_logits_is_that_of_their_likeliest_id():
    velocity = torch.tensor([[0.5, -1.0]])
    ids = action_ids(velocity, BINS, VOCABULARY)
    logits = torch.zeros(1, 2, BINS)
    logits[0, [0, 1], ids[0] - (VOCABULARY - BINS)] = 1.0
    assert velocity_of(logits) == pytest.approx(velocity.numpy(), abs=1 / (BINS - 1))


def test_the_loss_is_what_it_says():
    rng = np.random.default_rng(0)
    logits, auxiliary = rng.normal(size=(2, 3, 2, BINS)), rng.normal(size=(2, 3, 4))
    spots, shown = rng.normal(size=(2, 3, 5, 2)), rng.random((2, 3, 5, 2))
    velocity, positions = rng.uniform(-1, 1, (2, 3, 2)), rng.normal(size=(2, 3, 4))
    weight, known = rng.random((2, 3)), (rng.random((2, 3)) < 0.6).astype(float)

    values = np.arange(BINS - 1, -1, -1)
    distance = values - ((velocity + 1) / 2 * (BINS - 1))[..., None]
    target = np.exp(-(distance**2) / (2 * 1.5**2))
    target /= target.sum(-1, keepdims=True)
    log_share = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    action = -(target * log_share).sum(-1).mean(-1)
    error = np.abs(auxiliary - positions)
    smooth = np.where(error < 0.1, error**2 / 0.2, error - 0.05)
    hand, goal = smooth[..., :2].mean(-1), smooth[..., 2:].mean(-1)
    cross = -(shown * np.log(1 / (1 + np.exp(-spots))) + (1 - shown) * np.log(1 / (1 + np.exp(spots))))
    expected = (action * weight).sum() / weight.sum()
    expected += AUXILIARY_WEIGHT * (hand.mean() + (goal * known).sum() / known.sum())
    expected += SPOT_WEIGHT * cross.mean()

    as_tensor = lambda array: torch.from_numpy(array)  # noqa: E731
    outputs = Outputs(as_tensor(logits), as_tensor(auxiliary), as_tensor(spots))
    labels = Labels(*map(as_tensor, (velocity, positions, weight, known, shown)))
    assert loss_of(outputs, labels).item() == pytest.approx(expected, rel=1e-5)
