# SPDX-License-Identifier: Apache-2.0
"""What runs without an error and is yet not to be trusted: said at start-up and in the diagnostics."""

from __future__ import annotations

from pathlib import Path

from vla_edge_ros.action_config import DELTA, POSITION
from vla_edge_ros.config import VlaConfig
from vla_edge_ros.model.action_head import ActionHead, action_ids
from vla_edge_ros.model.chat_tokenizer import ChatTokenizer
from vla_edge_ros.model.checkpoint import CheckpointWeights, shortened
from vla_edge_ros.model.decoder_config import resolve
from vla_edge_ros.model.stored_tensors import unread_weight_files
from vla_edge_ros.model.tensor_shapes import ACTION_QUERIES, PATCH_PROJECTION
from vla_edge_ros.sequence import Decoding


def caveats(config: VlaConfig) -> tuple[str, ...]:
    """A line each, the gravest first; none without ``model.path``. Raises what opening the folder raises."""
    if not config.model.path:
        return ()
    folder = Path(config.model.path)
    weights = CheckpointWeights(folder, resolve(config.model))
    found = (
        _untrained_vision(weights, folder),
        _other_decoding(config, weights, folder),
        _padded_vocabulary(config, folder, weights.config.vocab_size),
        _creeping(config, weights.config.vocab_size),
        _unused_tensors(weights, folder),
        _unread_files(folder),
    )
    return tuple(line for line in found if line)


def _untrained_vision(weights: CheckpointWeights, folder: Path) -> str:
    if weights.has(PATCH_PROJECTION):
        return ""
    return (
        f"THE MODEL CANNOT SEE: {folder} has no tensor {PATCH_PROJECTION}, so pictures enter through a "
        "random projection and every action is made up, however plausible it looks"
    )


def _other_decoding(config: VlaConfig, weights: CheckpointWeights, folder: Path) -> str:
    """A checkpoint with query tokens was trained to decode in parallel, and one without them was not."""
    is_parallel, has_queries = config.layout.decoding is Decoding.PARALLEL, weights.has(ACTION_QUERIES)
    if is_parallel == has_queries:
        return ""
    if is_parallel:
        return (
            f"{folder} has no tensor {ACTION_QUERIES}, so action.decoding parallel asks random query tokens "
            "and every action is made up"
        )
    return f"{folder}: {ACTION_QUERIES} is not used; it was trained for action.decoding parallel"


def _padded_vocabulary(config: VlaConfig, folder: Path, vocab_size: int) -> str:
    """Silent where the last action id is given: then somebody has looked."""
    ids = action_ids(config.action, vocab_size)
    last = ChatTokenizer.of_folder(config.model.path).last_id
    if last == vocab_size - 1 or config.action.last_token_id:
        return ""
    return (
        f"{folder}: the tokenizer's last id is {last}, the model's {vocab_size - 1}; action tokens are read "
        f"as {ids[0]} to {ids[-1]}: set action.last_token_id to the one that the model was trained with"
    )


def _creeping(config: VlaConfig, vocab_size: int) -> str:
    """For motion in physical units only: a model whose ranges are not given stands nowhere anyhow."""
    action = config.action
    nearest = ActionHead(action, vocab_size).nearest_to_zero
    creeping = [
        f"{name} ({least:.2g} {unit} a {'training step' if kind == DELTA else 'second'})"
        for name, kind, unit, least in zip(
            action.names, action.kinds, action.unit_of_each, nearest, strict=True
        )
        if kind != POSITION and unit != "1" and least > 0
    ]
    if not creeping:
        return ""
    return (
        f"no token stands for 0, so that an arm that should stand creeps: {shortened(creeping)}; set "
        "action.dead_band_bins to 0.5 or more"
    )


def _unused_tensors(weights: CheckpointWeights, folder: Path) -> str:
    if not weights.unused:
        return ""
    return f"{folder}: tensors that the decoder does not use: {shortened(weights.unused)}"


def _unread_files(folder: Path) -> str:
    files = unread_weight_files(folder)
    return f"{folder}: weight files that are not read: {shortened(files)}" if files else ""
