# SPDX-License-Identifier: Apache-2.0
"""Episodes and their kept sets as arrays of one batch, made by worker processes ahead of the step."""

from __future__ import annotations

import multiprocessing
import queue
from dataclasses import dataclass
from multiprocessing.queues import Queue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.tabletop.scene import WORK_AREA
from vla_edge_ros.tabletop.tasks import draw
from vla_edge_ros.training.instructions import token_ids, word_ids
from vla_edge_ros.training.kept_sets import kept_sets
from vla_edge_ros.training.losses import UNKNOWN_WEIGHT
from vla_edge_ros.training.rollout import MODEL_HEIGHT, MODEL_WIDTH, Rollout, make_rollout

POSITION_SCALE = WORK_AREA[0]  # m; hand and target are within about 1 of it
PATCH = 16
SPOT_RADIUS = 10.0  # pixels of the model's picture


@dataclass(frozen=True, slots=True)
class Stage:
    """One part of training: ``room`` frames kept, ``frames`` an episode, ``episodes`` a batch.

    ``tasks`` and ``policies`` give the share of each; ``longest_delay`` in cycles.
    """

    name: str
    room: int
    frames: int
    episodes: int
    longest_delay: int
    learning_rate: float
    minutes: float
    tasks: dict[str, float]
    policies: dict[str, float]


@dataclass(frozen=True, slots=True)
class Batch:
    """Arrays of ``b`` episodes of ``t`` frames; the fields are those of ``Labels`` and ``Kept``."""

    prompt: NDArray[np.int64]  # [b, p]
    pixels: NDArray[np.uint8]  # [b, t, height, width, 3]
    index: NDArray[np.int64]  # [b, t, room]
    count: NDArray[np.int64]  # [b, t]
    velocity: NDArray[np.float32]  # [b, t, 2]
    positions: NDArray[np.float32]  # [b, t, 4]
    weight: NDArray[np.float32]  # [b, t]
    known: NDArray[np.float32]  # [b, t]
    spots: NDArray[np.float32]  # [b, t, patches, 2]
    recalls: NDArray[np.bool_]  # [b, t] the target follows from a kept frame, not from this one


def patches_of(pixels: Any) -> Any:
    """uint8 ``[..., height, width, 3]`` -> ``[..., patches, values]``; see ``model/patch_embedding.py``.

    NumPy's or PyTorch's arrays alike.
    """
    *lead, height, width, _ = pixels.shape
    split = pixels.reshape(*lead, height // PATCH, PATCH, width // PATCH, PATCH, 3).swapaxes(-4, -3)
    return split.reshape(*lead, -1, PATCH * PATCH * 3)


def make_batch(stage: Stage, rng: np.random.Generator) -> Batch:
    """Episodes whose instructions have as many tokens as the first one's, since one array holds them all."""
    words = word_ids(stage.tasks)
    first = _drawn(stage.tasks, rng)
    alike = {
        task: share for task, share in stage.tasks.items() if _prompt_length(task) == _prompt_length(first)
    }
    tasks = [first, *(_drawn(alike, rng) for _ in range(stage.episodes - 1))]
    rows = [_episode(stage, task, words, rng) for task in tasks]
    return Batch(*(np.stack(column) for column in zip(*rows, strict=True)))


def _prompt_length(task: str) -> int:
    """In tokens; the same in all episodes of a task."""
    return len(draw(task, 0).instruction.split())


def _episode(
    stage: Stage, task: str, words: dict[str, int], rng: np.random.Generator
) -> tuple[NDArray[Any], ...]:
    rollout = make_rollout(task, rng, stage.frames, stage.longest_delay)
    if stage.room:
        index, count = kept_sets(
            _drawn(stage.policies, rng), rollout.pixels, rollout.cycles, rollout.lit, stage.room
        )
    else:
        index, count = np.zeros((stage.frames, 0), np.int64), np.zeros(stage.frames, np.int64)
    known, from_memory = _known(rollout, index, count)
    weight = known.astype(np.float32)
    before_any_cue = rollout.recalls & (rollout.cue < 0)
    weight[before_any_cue] = UNKNOWN_WEIGHT
    velocity = np.where(before_any_cue[:, None], np.float32(0), rollout.velocity)
    positions = np.concatenate([rollout.hand, rollout.target], 1) / np.float32(POSITION_SCALE)
    return (
        np.array(token_ids(rollout.instruction, words)),
        rollout.pixels,
        index,
        count,
        velocity,
        positions,
        weight,
        known.astype(np.float32),
        _heat(rollout.spots),
        from_memory,
    )


def _known(
    rollout: Rollout, index: NDArray[np.int64], count: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """``[t]`` each: whether this frame or a kept one shows the target, and whether only kept ones do."""
    if not rollout.recalls:
        return np.ones(len(count), np.bool_), np.zeros(len(count), np.bool_)
    shown = rollout.lit == rollout.cue
    valid = np.arange(index.shape[1]) < count[:, None]
    kept = ((rollout.lit[index] == rollout.cue[:, None]) & valid).any(1)
    seen = rollout.cue >= 0
    return seen & (shown | kept), seen & kept & ~shown


def _heat(spots: NDArray[np.float32]) -> NDArray[np.float32]:
    """``[t, 2, 2]`` pixels -> ``[t, patches, 2]``: 1 where a patch's centre is, falling to 0 around it."""
    rows, columns = np.mgrid[PATCH // 2 : MODEL_HEIGHT : PATCH, PATCH // 2 : MODEL_WIDTH : PATCH]
    centres = np.stack([columns.ravel(), rows.ravel()], -1).astype(np.float32)
    distance = np.linalg.norm(spots[:, None] - centres[:, None], axis=-1)
    return np.nan_to_num(np.exp(-((distance / SPOT_RADIUS) ** 2)), nan=0.0).astype(np.float32)


def _drawn(shares: dict[str, float], rng: np.random.Generator) -> str:
    weights = np.array(list(shares.values()))
    return list(shares)[int(rng.choice(len(weights), p=weights / weights.sum()))]


class BatchSource:
    """Batches from ``workers`` processes, at most ``ahead`` waiting; ``close`` ends them."""

    def __init__(self, stage: Stage, seed: int, workers: int, ahead: int = 8):
        context = multiprocessing.get_context("spawn")
        self._queue: Queue[Batch] = context.Queue(ahead)
        self._workers = [
            context.Process(target=_work, args=(stage, seed, number, self._queue), daemon=True)
            for number in range(workers)
        ]
        for worker in self._workers:
            worker.start()

    def next(self) -> Batch:
        """Raises ``RuntimeError`` where a worker has died."""
        while True:
            try:
                return self._queue.get(timeout=5)
            except queue.Empty:
                dead = [worker.exitcode for worker in self._workers if worker.exitcode is not None]
                if dead:
                    raise RuntimeError(f"a data worker ended with exit code {dead[0]}") from None

    def close(self) -> None:
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            worker.join()


def _work(stage: Stage, seed: int, number: int, batches: Queue[Batch]) -> None:
    import cv2

    cv2.setNumThreads(1)
    rng = np.random.default_rng([seed, number])
    batches.cancel_join_thread()  # what waits in the pipe must not hold a process that ends
    # Not the parent's id read here: a training that was killed while this process started would have left
    # another parent behind, which never ends.
    training = multiprocessing.parent_process()
    assert training is not None
    while training.is_alive():  # else it was killed, and nobody will take another batch
        batch = make_batch(stage, rng)
        while training.is_alive():
            try:
                batches.put(batch, timeout=1)
                break
            except queue.Full:
                continue
