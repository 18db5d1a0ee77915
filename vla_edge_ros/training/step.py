# SPDX-License-Identifier: Apache-2.0
"""One step of training: forward, backward, AdamW; on a GPU replayed as a CUDA graph.

A step of this small network is a thousand short kernels, which take longer to launch than to run. All batches
of a stage have the same shapes, so the whole step, the optimizer's part included, is captured once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vla_edge_ros.training.batches import Batch, patches_of
from vla_edge_ros.training.losses import Labels, action_ids, loss_of, velocity_of
from vla_edge_ros.training.network import Kept, Outputs, PolicyNetwork
from vla_edge_ros.training.policy import BINS, VOCABULARY

LONGEST_GRADIENT = 1.0
_STEPS_BEFORE_CAPTURE = 3  # allocations and lazy initialisation happen outside of the graph

# Of a step: loss, then sum and number of the velocity's errors in view, sum and number of those from memory.
FIGURES = 5


class _Tensors(NamedTuple):
    """A ``Batch`` on the device; the names and shapes are the same."""

    prompt: Tensor
    pixels: Tensor
    index: Tensor
    count: Tensor
    velocity: Tensor
    positions: Tensor
    weight: Tensor
    known: Tensor
    spots: Tensor
    recalls: Tensor


class TrainingStep:
    """Steps of ``network`` over batches of one shape.

    ``__call__`` returns ``FIGURES`` numbers, float32, on the device: nothing waits for the device but who
    reads them.
    """

    def __init__(self, network: PolicyNetwork, learning_rate: float, device: str):
        self._network, self._device = network, device
        self._on_gpu = torch.device(device).type == "cuda"
        # A graph replays the same numbers: what changes between replays must be a tensor.
        rate = torch.tensor(learning_rate, device=device) if self._on_gpu else learning_rate
        self._optimizer = torch.optim.AdamW(
            network.parameters(), rate, betas=(0.9, 0.95), weight_decay=0.01, capturable=self._on_gpu
        )
        self._static: _Tensors | None = None
        self._replay: Callable[[], None] | None = None
        self._figures = torch.zeros(FIGURES, device=device)
        self._steps = 0

    def set_learning_rate(self, rate: float) -> None:
        for group in self._optimizer.param_groups:
            if self._on_gpu:
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def __call__(self, batch: Batch) -> Tensor:
        self._steps += 1
        if not self._on_gpu:
            self._run(_Tensors(*(torch.from_numpy(array) for array in _arrays(batch))))
        elif self._replay is None:
            self._static = _Tensors(*(torch.from_numpy(a).to(self._device) for a in _arrays(batch)))
            self._run_on_gpu(self._static)
        else:
            assert self._static is not None
            for target, array in zip(self._static, _arrays(batch), strict=True):
                target.copy_(torch.from_numpy(array).pin_memory(), non_blocking=True)
            self._replay()
        return self._figures.clone()

    def _run_on_gpu(self, tensors: _Tensors) -> None:
        """A step outside of a graph, on a stream of its own as capturing asks; the last one is captured."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._run(tensors)
        torch.cuda.current_stream().wait_stream(stream)
        if self._steps == _STEPS_BEFORE_CAPTURE:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self._run(tensors)
            self._replay = graph.replay

    def _run(self, tensors: _Tensors) -> None:
        labels = Labels(tensors.velocity, tensors.positions, tensors.weight, tensors.known, tensors.spots)
        patches = patches_of(tensors.pixels).float() / 127.5 - 1
        ids = action_ids(labels.velocity, BINS, VOCABULARY)
        self._optimizer.zero_grad(set_to_none=True)
        # Without the cache of casts: a graph would read casts of another step's weights.
        with torch.autocast(
            torch.device(self._device).type, torch.bfloat16, enabled=self._on_gpu, cache_enabled=False
        ):
            outputs: Outputs = self._network(tensors.prompt, patches, ids, Kept(tensors.index, tensors.count))
        loss = loss_of(outputs, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._network.parameters(), LONGEST_GRADIENT)
        self._optimizer.step()
        with torch.no_grad():
            error = (velocity_of(outputs.logits) - labels.velocity).norm(dim=-1)
            remembered = tensors.recalls.float()
            now = (labels.known > 0).float() * (1 - remembered)
            parts = ((error * now).sum(), now.sum(), (error * remembered).sum(), remembered.sum())
            self._figures.copy_(torch.stack([loss.detach().float(), *parts]))


def _arrays(batch: Batch) -> list[NDArray[np.generic]]:
    return [getattr(batch, name) for name in _Tensors._fields]
