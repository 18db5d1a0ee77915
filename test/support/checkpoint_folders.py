# SPDX-License-Identifier: Apache-2.0
"""Checkpoint folders of the tiny preset, written by the format's description."""

from __future__ import annotations

import dataclasses
import json

import numpy as np

from vla_edge_ros.model.bfloat16 import float32_to_bfloat16
from vla_edge_ros.model.decoder_config import TINY
from vla_edge_ros.model.random_weights import RandomWeights
from vla_edge_ros.model.tensor_shapes import tensor_shapes

EMBEDDING = "model.embed_tokens.weight"
K_BIAS = "model.layers.1.self_attn.k_proj.bias"
SIZES = {**dataclasses.asdict(TINY), "model_type": "qwen2"}
SIZES = {key: SIZES[key] for key in SIZES if key != "qkv_bias"}


def reference(config=TINY):
    weights = RandomWeights(config, seed=9)
    return {name: weights.tensor(name) for name in tensor_shapes(config)}


def stored(values, kind):
    """``(type as the format names it, shape, bytes)`` of one tensor."""
    data = {
        "bfloat16": ("BF16", float32_to_bfloat16(values)),
        "float16": ("F16", values.astype(np.float16)),
        "float32": ("F32", values.astype(np.float32)),
        "float64": ("F64", values.astype(np.float64)),
    }[kind]
    return data[0], values.shape, data[1].tobytes()


def write_stored(path, tensors):
    """The safetensors format by its description: length of the header, JSON header, the elements."""
    header, elements = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, shape, data) in tensors.items():
        at = [len(elements), len(elements) + len(data)]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": at}
        elements += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + elements)


def write(folder, tensors, kind="bfloat16", file="model.safetensors"):
    write_stored(folder / file, {name: stored(values, kind) for name, values in tensors.items()})


def write_sharded(folder, tensors):
    names = sorted(tensors)
    files = {name: f"model-0000{1 + (i % 3)}-of-00003.safetensors" for i, name in enumerate(names)}
    for file in set(files.values()):
        write(folder, {name: tensors[name] for name in names if files[name] == file}, file=file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": files}))
    return files
