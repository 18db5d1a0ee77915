# SPDX-License-Identifier: Apache-2.0
"""Which tensors lie where in a Hugging Face folder: ``model.safetensors``, or shards with an index.

``safetensors`` checks a file's header; its NumPy interface has no bfloat16 and copies, so the elements are
mapped by ``checkpoint`` from the offsets that the checked header gives. Adapters are refused: their base
weights alone are another model.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open

from vla_edge_ros.errors import WeightsError
from vla_edge_ros.model.model_file import likely_cause, read_json_object, with_cause

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
_ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors", "adapter_model.bin")
_ADAPTER_PARTS = re.compile(r"(^|\.)(lora_\w+|ia3_\w+|hada_\w+|lokr_\w+|base_layer|modules_to_save)(\.|$)")
_ADAPTER_PREFIX = "base_model.model."
_OTHER_WEIGHTS = (
    "*.safetensors",
    "pytorch_model*.bin",
    "*.pt",
    "*.pth",
    "*.ckpt",
    "*.gguf",
    "*.h5",
    "*.msgpack",
)
_MERGE = "merge it into the base weights first (peft: merge_and_unload, then save_pretrained)"


@dataclass(frozen=True)
class StoredTensor:
    """One tensor as its file's header describes it; ``begin`` counts from the start of the file."""

    path: Path
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


Header = dict[str, StoredTensor]


def read_folder(folder: Path) -> Header:
    """Every tensor of the folder's model, by name; a single file wins over an index, as in transformers."""
    for name in _ADAPTER_FILES:
        if (folder / name).exists():
            raise WeightsError(f"{folder / name}: adapters are not applied: {_MERGE}")
    stored: Header = {}
    for path, header in _headers(folder).items():
        if twice := sorted(stored.keys() & header.keys()):
            raise WeightsError(f"{path}: tensor {twice[0]} lies in {stored[twice[0]].path.name} as well")
        stored.update(header)
    for name, entry in stored.items():
        if name.startswith(_ADAPTER_PREFIX) or _ADAPTER_PARTS.search(name):
            raise WeightsError(f"{entry.path}: tensor {name} is an adapter's, which is not applied: {_MERGE}")
    return stored


def unread_weight_files(folder: Path) -> tuple[str, ...]:
    """Names of the safetensors files in ``folder`` that no tensor is read from, in order."""
    read = {path.name for path in _headers(folder)}
    return tuple(sorted({path.name for path in folder.glob("*.safetensors")} - read))


def _headers(folder: Path) -> dict[Path, Header]:
    """The headers of the files that make up the model."""
    single, index = folder / SINGLE_FILE, folder / INDEX_FILE
    if single.exists() or single.is_symlink():
        return {single: _read_header(single)}
    if index.exists() or index.is_symlink():
        return _headers_by_index(index)
    others = sorted(path.name for pattern in _OTHER_WEIGHTS for path in folder.glob(pattern))
    found = f"only {', '.join(others[:4])}" if others else "neither"
    raise WeightsError(f"{folder}: expected {SINGLE_FILE} or {INDEX_FILE}, found {found}")


def _headers_by_index(index: Path) -> dict[Path, Header]:
    """Those of the shards that the index names; each must hold what the index places there."""
    weight_map = read_json_object(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise WeightsError(f"{index}: expected a weight_map from tensors to files, got {weight_map!r:.200}")
    for file in weight_map.values():
        if not isinstance(file, str) or Path(file).name != file:
            raise WeightsError(f"{index}: weight_map must name files of its own folder, got {file!r}")
    headers = {file: _read_header(index.parent / file) for file in sorted(set(weight_map.values()))}
    for name, file in weight_map.items():
        if name not in headers[file]:
            path = index.parent / file
            raise WeightsError(f"{path}: tensor {name} is missing, but {INDEX_FILE} places it here")
    return {index.parent / file: header for file, header in headers.items()}


def _read_header(path: Path) -> Header:
    """What ``path`` holds, from its checked header: 8 bytes of length, then JSON, then the elements."""
    if not path.is_file():
        raise WeightsError(f"{path}: expected a safetensors file: {likely_cause(path)}")
    try:
        with safe_open(path, framework="numpy"):
            pass
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length))
    except (SafetensorError, OSError, ValueError) as error:
        raise WeightsError(with_cause(f"{path}: not a whole safetensors file: {error}", path)) from error
    header.pop("__metadata__", None)
    start = 8 + length
    return {
        name: StoredTensor(
            path, entry["dtype"], tuple(entry["shape"]), *(start + at for at in entry["data_offsets"])
        )
        for name, entry in header.items()
    }
