# SPDX-License-Identifier: Apache-2.0
"""The smoothed head: a narrow peak gives way to a broad hill, and the ends stay where they are."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs PyTorch")

from vla_edge_ros.sequence import Decoding  # noqa: E402
from vla_edge_ros.training.export import smooth_head  # noqa: E402
from vla_edge_ros.training.policy import BINS, new_network  # noqa: E402


def smoothed(logits: np.ndarray, bins: float) -> np.ndarray:
    """What a network answers after smoothing that answered ``logits`` before."""
    network = new_network(Decoding.PARALLEL)
    before = network.head.weight.detach().clone()
    with torch.no_grad():
        network.head.weight[-BINS:] = 0
        network.head.weight[-BINS:, 0] = torch.from_numpy(logits).float()
    smooth_head(network, bins)
    assert torch.equal(network.head.weight[:-BINS], before[:-BINS]), "words keep their rows"
    assert not network.head.weight[-BINS:, 1:].any()
    return network.head.weight[-BINS:, 0].detach().double().numpy()


def test_it_is_a_gaussian_mean_in_float64():
    logits = np.random.default_rng(0).normal(size=BINS)
    places = np.arange(-48, 49)
    kernel = np.exp(-(places**2) / (2 * 12.0**2))
    padded = np.pad(logits, 48, mode="edge")
    expected = np.convolve(padded, kernel / kernel.sum(), mode="valid")
    np.testing.assert_allclose(smoothed(logits, 12.0), expected, atol=1e-5)


def test_a_narrow_peak_gives_way_to_a_hill():
    bins = np.arange(BINS)
    logits = -((bins - 180) ** 2) / (2 * 25.0**2)
    logits[126:129] = 1.0
    assert logits.argmax() in (126, 127, 128)
    assert abs(int(smoothed(logits, 12.0).argmax()) - 180) <= 3


@pytest.mark.parametrize("end", [0, BINS - 1])
def test_full_speed_stays_full_speed(end):
    assert smoothed(-np.abs(np.arange(BINS) - end) * 0.1, 12.0).argmax() == end


def test_none_is_the_head_as_trained():
    logits = np.random.default_rng(1).normal(size=BINS).astype(np.float32)
    assert smoothed(logits, 0.0).tolist() == logits.astype(np.float64).tolist()
