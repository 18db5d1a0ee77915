# SPDX-License-Identifier: Apache-2.0
"""What training minimises: soft targets over the bins, and where things are, which only training looks at.

Neighbouring bins are nearly as right as the best one, so the target is a Gaussian over them. The auxiliary
positions of hand and target make the decoder look for both: without them imitation alone stayed at 10 %
(measured with a prototype of this task). That each patch says, half-way through the layers, whether it shows
the hand or the target makes a search over the picture out of local questions.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from vla_edge_ros.training.network import Outputs

SOFT_BINS = 1.5  # standard deviation of the target over the bins
AUXILIARY_WEIGHT = 2.0
SPOT_WEIGHT = 5.0  # a sum over patches of which most show nothing
UNKNOWN_WEIGHT = 0.05  # of a frame before any cue, whose target is zero motion


class Labels(NamedTuple):
    """``velocity``: ``[b, t, 2]`` of full speed; ``positions``: ``[b, t, 4]`` hand and target, about -1 to 1;
    ``weight``: ``[b, t]`` of the action; ``known``: ``[b, t]`` 1 where the target can be known;
    ``spots``: ``[b, t, patches, 2]``, 1 where a patch shows the hand, the target, falling to 0 around it.
    """

    velocity: Tensor
    positions: Tensor
    weight: Tensor
    known: Tensor
    spots: Tensor


def bins_of(velocity: Tensor, bins: int) -> Tensor:
    """Bin, not rounded, of ``velocity`` in -1 to 1: 0 to ``bins - 1``."""
    return (velocity.clamp(-1, 1) + 1) / 2 * (bins - 1)


def action_ids(velocity: Tensor, bins: int, vocabulary: int) -> Tensor:
    """Token ids: bin 0 is the vocabulary's last (``model/action_head.py``)."""
    return vocabulary - 1 - bins_of(velocity, bins).round().long()


def velocity_of(logits: Tensor) -> Tensor:
    """What the likeliest tokens command, in -1 to 1: ``[..., bins]`` -> ``[...]``."""
    bins = logits.shape[-1]
    return (bins - 1 - logits.argmax(-1)) / (bins - 1) * 2 - 1


def loss_of(outputs: Outputs, labels: Labels) -> Tensor:
    logits = outputs.logits.float()
    bins = logits.shape[-1]
    order = torch.arange(bins - 1, -1, -1, device=logits.device)  # the bin of each id, lowest id first
    distance = order - bins_of(labels.velocity, bins)[..., None]
    target = torch.softmax(-(distance**2) / (2 * SOFT_BINS**2), -1)
    action = -(target * logits.log_softmax(-1)).sum(-1).mean(-1)
    error = functional.smooth_l1_loss(
        outputs.auxiliary.float(), labels.positions, reduction="none", beta=0.1
    ).unflatten(-1, (2, 2))
    hand, goal = error.mean(-1).unbind(-1)
    spots = functional.binary_cross_entropy_with_logits(outputs.spots.float(), labels.spots)
    return (
        _mean(action, labels.weight)
        + AUXILIARY_WEIGHT * (hand.mean() + _mean(goal, labels.known))
        + SPOT_WEIGHT * spots
    )


def _mean(values: Tensor, weight: Tensor) -> Tensor:
    return (values * weight).sum() / weight.sum().clamp(min=1e-6)
