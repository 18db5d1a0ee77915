# SPDX-License-Identifier: Apache-2.0
"""Tensors of a Hugging Face folder, memory-mapped, and a check that they are those of its config.json.

A tensor that belongs to the decoder by its name and that the decoder does not use means that folder and
config.json describe two models, so it is refused; what belongs to something else is named in ``unused``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vla_edge_ros.errors import WeightsError
from vla_edge_ros.model.bfloat16 import bfloat16_to_float32
from vla_edge_ros.model.decoder_config import DecoderConfig
from vla_edge_ros.model.stored_tensors import StoredTensor, read_folder
from vla_edge_ros.model.tensor_shapes import (
    ACTION_QUERIES,
    EMBEDDING,
    LM_HEAD,
    PATCH_PROJECTION,
    tensor_shapes,
)

_STORED_TYPES = {"BF16": ("bfloat16", "<u2"), "F16": ("float16", "<f2"), "F32": ("float32", "<f4")}
_DECODER_NAMES = ("model.", "lm_head.")
# Old Llama checkpoints hold what follows from rope_theta; transformers does not read it either.
_FOLLOWS_FROM_CONFIG = re.compile(r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq")
_COMPARED_ROWS = 4096


class CheckpointWeights:
    """A folder's tensors; every one that the decoder needs is checked when the folder is opened.

    ``unused``: the names of the other tensors, in order. ``WeightsError`` where they contradict config.json.
    """

    def __init__(self, folder: str | Path, config: DecoderConfig):
        self.config = config
        self.folder = Path(folder)
        self._stored = read_folder(self.folder)
        self._files: dict[Path, np.memmap] = {}
        needed = tensor_shapes(config)
        for name, shape in needed.items():
            self.check(name, shape)
        self.unused = tuple(sorted(self._stored.keys() - needed.keys() - {PATCH_PROJECTION, ACTION_QUERIES}))
        self._refuse_contradictions()

    def has(self, name: str) -> bool:
        return name in self._stored

    def check(self, name: str, shape: tuple[int, ...]) -> None:
        """Raise ``WeightsError`` unless ``name`` is stored with this shape in a type that can be read."""
        stored = self._find(name)
        if stored.shape != shape:
            got = list(stored.shape)
            raise WeightsError(f"{stored.path}: {name} must have shape {list(shape)}, got {got}")

    def raw(self, name: str) -> tuple[str, NDArray[np.generic]]:
        """``(type, elements)`` mapped from the file, read-only; bfloat16 as uint16 bits."""
        stored = self._find(name)
        if stored.path not in self._files:
            self._files[stored.path] = np.memmap(stored.path, np.uint8, mode="r")
        type_name, element = _STORED_TYPES[stored.dtype]
        data = np.asarray(self._files[stored.path])[stored.begin : stored.end]
        return type_name, data.view(element).reshape(stored.shape)

    def tensor(self, name: str) -> NDArray[np.float32]:
        return _to_float32(*self.raw(name))

    def rows(self, name: str, indices: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float32]:
        type_name, data = self.raw(name)
        return _to_float32(type_name, data[np.asarray(indices, np.int64)])

    def _find(self, name: str) -> StoredTensor:
        if name not in self._stored:
            untied = "; config.json does not say tie_word_embeddings" if name == LM_HEAD else ""
            raise WeightsError(
                f"{self.folder}: tensor {name} is missing ({len(self._stored)} tensors found{untied})"
            )
        stored = self._stored[name]
        if stored.dtype not in _STORED_TYPES:
            raise WeightsError(f"{stored.path}: {name} must be BF16, F16 or F32, got {stored.dtype}")
        return stored

    def _refuse_contradictions(self) -> None:
        """Unused tensors that say that the decoder is another than config.json describes."""
        foreign = [
            name
            for name in self.unused
            if name.startswith(_DECODER_NAMES) and not _FOLLOWS_FROM_CONFIG.fullmatch(name)
        ]
        if LM_HEAD in foreign and self._head_is_embedding():
            foreign.remove(LM_HEAD)
        elif LM_HEAD in foreign:
            raise WeightsError(
                f"{self._stored[LM_HEAD].path}: {LM_HEAD} must equal {EMBEDDING}, since config.json says "
                "tie_word_embeddings, got other values: which of both is meant?"
            )
        if foreign:
            raise WeightsError(
                f"{self._stored[foreign[0]].path}: must hold no tensors of a decoder other than config.json "
                f"describes, got {shortened(foreign)}, which would not be used"
            )

    def _head_is_embedding(self) -> bool:
        """Compared by value, some rows at a time: a copy of either could be a gigabyte."""
        head, embedding = self._stored[LM_HEAD], self._stored[EMBEDDING]
        if (head.dtype, head.shape) != (embedding.dtype, embedding.shape):
            return False
        _, left = self.raw(LM_HEAD)
        _, right = self.raw(EMBEDDING)
        return all(
            np.array_equal(left[row : row + _COMPARED_ROWS], right[row : row + _COMPARED_ROWS])
            for row in range(0, len(left), _COMPARED_ROWS)
        )


def shortened(names: Sequence[str], most: int = 4) -> str:
    """``names`` for a message of one line."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _to_float32(type_name: str, data: NDArray[np.generic]) -> NDArray[np.float32]:
    if type_name == "bfloat16":
        return bfloat16_to_float32(data.view(np.uint16))
    return data.astype(np.float32, copy=False)
