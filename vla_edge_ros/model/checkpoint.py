# SPDX-License-Identifier: Apache-2.0
"""Tensors of a Hugging Face folder, memory-mapped: ``model.safetensors``, or shards with an index.

``safetensors`` checks a file's header; its NumPy interface has no bfloat16 and copies, so the elements are
mapped here from the offsets that the checked header gives.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from vla_edge_ros.errors import WeightsError
from vla_edge_ros.model.bfloat16 import bfloat16_to_float32
from vla_edge_ros.model.decoder_config import DecoderConfig
from vla_edge_ros.model.tensor_shapes import tensor_shapes

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
_STORED_TYPES = {"BF16": ("bfloat16", "<u2"), "F16": ("float16", "<f2"), "F32": ("float32", "<f4")}


@dataclass(frozen=True)
class StoredTensor:
    """One tensor as its file's header describes it; ``begin`` counts from the start of the file."""

    path: Path
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


class CheckpointWeights:
    """A folder's tensors; every one that the decoder needs is checked when the folder is opened."""

    def __init__(self, folder: str | Path, config: DecoderConfig):
        self.config = config
        self.folder = Path(folder)
        self._stored = _read_folder(self.folder)
        self._files: dict[Path, np.memmap] = {}
        for name, shape in tensor_shapes(config).items():
            self.check(name, shape)

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
            raise WeightsError(f"{self.folder}: tensor {name} is missing ({len(self._stored)} tensors found)")
        stored = self._stored[name]
        if stored.dtype not in _STORED_TYPES:
            raise WeightsError(f"{stored.path}: {name} must be BF16, F16 or F32, got {stored.dtype}")
        return stored


def _to_float32(type_name: str, data: NDArray[Any]) -> NDArray[np.float32]:
    return bfloat16_to_float32(data) if type_name == "bfloat16" else data.astype(np.float32, copy=False)


def _read_folder(folder: Path) -> dict[str, StoredTensor]:
    """Headers of all files of the folder; a single file wins over an index, as in transformers."""
    single, index = folder / SINGLE_FILE, folder / INDEX_FILE
    if single.is_file():
        return _read_header(single)
    if not index.is_file():
        raise WeightsError(f"{folder}: expected {SINGLE_FILE} or {INDEX_FILE}, found neither")
    stored: dict[str, StoredTensor] = {}
    weight_map = _read_weight_map(index)
    headers = {file: _read_header(folder / file) for file in sorted(set(weight_map.values()))}
    for name, file in weight_map.items():
        if name not in headers[file]:
            raise WeightsError(f"{folder / file}: tensor {name} is missing, but {INDEX_FILE} places it here")
        stored[name] = headers[file][name]
    return stored


def _read_weight_map(index: Path) -> dict[str, str]:
    try:
        weight_map = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
    except (ValueError, KeyError, TypeError) as error:
        raise WeightsError(f"{index}: expected JSON with a weight_map, got {error!r}") from error
    if not isinstance(weight_map, dict) or not all(isinstance(file, str) for file in weight_map.values()):
        raise WeightsError(f"{index}: weight_map must map tensor names to file names")
    for file in weight_map.values():
        if Path(file).name != file:
            raise WeightsError(f"{index}: weight_map must name files of its own folder, got {file!r}")
    return weight_map


def _read_header(path: Path) -> dict[str, StoredTensor]:
    """What ``path`` holds, from its checked header: 8 bytes of length, then JSON, then the elements."""
    if not path.is_file():
        raise WeightsError(f"{path}: file is missing")
    try:
        with safe_open(path, framework="numpy"):
            pass
    except (SafetensorError, OSError) as error:
        raise WeightsError(f"{path}: not a whole safetensors file: {error}") from error
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    start = 8 + length
    return {
        name: StoredTensor(
            path, entry["dtype"], tuple(entry["shape"]), *(start + at for at in entry["data_offsets"])
        )
        for name, entry in header.items()
    }
