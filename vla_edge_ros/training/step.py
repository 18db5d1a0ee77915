# SPDX-License-Identifier: Apache-2.0
"""One step of training: forward, backward, AdamW; on a GPU replayed as a CUDA graph.

A step of this small network is a thousand short kernels, which take longer to launch than to run. Batches
of a stage have the same shapes, but for the prompt's length, so the whole step, the optimizer's part
included, is captured once for each such length.
"""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(slots=True)
class _Captured:
    """Where batches of one shape are copied to, and the graph that reads them there, once it is captured."""

    tensors: _Tensors
    graph: torch.cuda.CUDAGraph | None = None
    steps: int = 0


class TrainingStep:
    """Steps of ``network`` over batches that differ in the length of their prompts only.

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
        self._captured: dict[int, _Captured] = {}  # by the prompt's length, the one size that differs
        self._figures = torch.zeros(FIGURES, device=device)

    def set_learning_rate(self, rate: float) -> None:
        for group in self._optimizer.param_groups:
            if self._on_gpu:
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def __call__(self, batch: Batch) -> Tensor:
        if not self._on_gpu:
            self._run(_Tensors(*(torch.from_numpy(array) for array in _arrays(batch))))
            return self._figures.clone()
        captured = self._captured.get(batch.prompt.shape[1])
        if captured is None:
            captured = _Captured(_Tensors(*(torch.from_numpy(a).to(self._device) for a in _arrays(batch))))
            self._captured[batch.prompt.shape[1]] = captured
        for target, array in zip(captured.tensors, _arrays(batch), strict=True):
            target.copy_(torch.from_numpy(array).pin_memory(), non_blocking=True)
        if captured.graph is not None:
            captured.graph.replay()
        else:
            self._run_outside(captured)
        return self._figures.clone()

    def _run_outside(self, captured: _Captured) -> None:
        """A step outside of a graph, on a stream of its own as capturing asks; behind the last one it is
        captured, which runs nothing."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._run(captured.tensors)
        torch.cuda.current_stream().wait_stream(stream)
        captured.steps += 1
        if captured.steps == _STEPS_BEFORE_CAPTURE:
            captured.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(captured.graph):
                self._run(captured.tensors)

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
