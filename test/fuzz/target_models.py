# SPDX-License-Identifier: Apache-2.0
"""Model folders: each file of a small whole model is damaged; what loads gives tokens and finite states.

An input is JSON: file name to contents, byte by byte as Latin-1 text.
"""

from __future__ import annotations

import functools
import json
import struct
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from byte_mutator import mutate
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from tree_mutator import mutate_tree
from worker import refusal

from vla_edge_ros.config import ActionConfig, CacheConfig, FrameConfig, ModelSource, PromptConfig, VlaConfig
from vla_edge_ros.engines.numpy_engine import NumpyEngine
from vla_edge_ros.errors import VlaEdgeError
from vla_edge_ros.model.bfloat16 import bfloat16_to_float32
from vla_edge_ros.model.decoder_config import from_hf_config
from vla_edge_ros.model.prompt import prompt_tokens
from vla_edge_ros.model.tensor_shapes import tensor_shapes
from vla_edge_ros.model.weights import open_weights
from vla_edge_ros.types import CacheView

INSTRUCTION = "pick up the red cube"
SIZES: dict[str, Any] = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 600,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
    "torch_dtype": "bfloat16",
    "use_sliding_window": False,
    "layer_types": ["full_attention", "full_attention"],
    "rope_scaling": None,
    "bos_token_id": 258,
}
KEYS: tuple[Any, ...] = (
    "llama", "qwen2", "qwen3", "mistral", {"rope_type": "linear", "factor": 2.0}, {"rope_type": "default"},
    {"rope_theta": 1e6, "rope_type": "default"}, {"type": "yarn", "factor": 4.0}, ["sliding_attention"],
    "gelu", "F64", "BF16", "I8", [16, 16], [0, 0], [2**40, 2**40], {"content": "<s>"}, {"content": None},
    {"name": "default", "template": "{{ messages[0]['content'] }}"}, "{% for m in messages %}{{ m.content }}",
    "{{ messages }}", "{% for i in range(10**9) %}x{% endfor %}", "{{ 'a' * 10**9 }}", "{{ ''.__class__ }}",
    "{{ raise_exception('no') }}",
)  # fmt: skip
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def _tokenizer() -> str:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({symbol: i for i, symbol in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>", "<s>", "</s>"])  # ids 256 to 259
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 258)])
    return tokenizer.to_str(pretty=True)


def _safetensors(header: dict[str, Any], elements: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + elements


@functools.cache
def _tensors() -> tuple[dict[str, Any], bytes]:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    elements, random = b"", np.random.default_rng(0)
    for name, shape in tensor_shapes(from_hf_config(SIZES)).items():
        values = random.normal(0, 0.1, shape).astype(np.float32)
        begin = len(elements)
        elements += (values.view(np.uint32) >> 16).astype("<u2").tobytes()
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [begin, len(elements)]}
    return header, elements


@functools.cache
def base() -> dict[str, bytes]:
    header, elements = _tensors()
    settings = {
        "chat_template": CHATML,
        "bos_token": "<s>",
        "eos_token": {"content": "</s>", "special": True},
    }
    generation = {"eos_token_id": [259], "max_length": 100}
    return {
        "config.json": json.dumps(SIZES).encode(),
        "model.safetensors": _safetensors(header, elements),
        "tokenizer.json": _tokenizer().encode(),
        "tokenizer_config.json": json.dumps(settings).encode(),
        "special_tokens_map.json": json.dumps(
            {"bos_token": "<s>", "pad_token": {"content": "</s>"}}
        ).encode(),
        "added_tokens.json": json.dumps({"<s>": 258}).encode(),
        "generation_config.json": json.dumps(generation).encode(),
    }


def _sharded(files: dict[str, bytes]) -> None:
    files["model-00001-of-00001.safetensors"] = files.pop("model.safetensors")
    names = [name for name in _tensors()[0] if name != "__metadata__"]
    index = {"metadata": {}, "weight_map": dict.fromkeys(names, "model-00001-of-00001.safetensors")}
    files["model.safetensors.index.json"] = json.dumps(index).encode()


def make(random: Random) -> bytes:
    files = dict(base())
    if random.random() < 0.3:
        _sharded(files)
    for name in random.sample(sorted(files), random.choice((1, 1, 1, 2))):
        data = files[name]
        if random.random() < 0.4:
            files[name] = mutate(data, random)
        elif name.endswith(".json"):
            files[name] = _text(mutate_tree(json.loads(data), random, KEYS))
        else:
            header, elements = _tensors()
            tree = mutate_tree(header, random, KEYS)
            files[name] = _safetensors(tree, elements if random.random() < 0.8 else mutate(elements, random))
    if random.random() < 0.05:
        files.pop(random.choice(sorted(files)))
    return json.dumps({name: data.decode("latin-1") for name, data in files.items()}).encode()


def _text(tree: Any) -> bytes:
    return json.dumps(tree).encode("utf-8", "surrogatepass")


def check(data: bytes, folder: Path) -> str:
    try:
        files = {name: text.encode("latin-1") for name, text in json.loads(data).items()}
    except (ValueError, AttributeError):
        return "no input"
    for name, contents in files.items():
        if Path(name).name != name:
            return "no input"
        (folder / name).write_bytes(contents)
    config = VlaConfig(
        model=ModelSource(path=str(folder)),
        frame=FrameConfig(width=32, height=32),
        cache=CacheConfig(capacity_slots=1024),
        prompt=PromptConfig(instruction=INSTRUCTION, max_pages=6),
        action=ActionConfig(),
    )
    try:
        ids = _use(config)
    except VlaEdgeError as error:
        return refusal(error)
    if files.get("tokenizer.json") == base()["tokenizer.json"]:
        text = Tokenizer.from_str(_tokenizer()).decode(ids, skip_special_tokens=False)
        assert INSTRUCTION in text, f"the model is told {text!r}"
    return "good"


def _use(config: VlaConfig) -> list[int]:
    """As the reasoner does: open, load, pin the prompt, run a chunk. The prompt's token ids."""
    weights = open_weights(config.model)
    size = weights.config.vocab_size
    for name in tensor_shapes(weights.config):
        _check_tensor(weights, name)
    ids, suffix = prompt_tokens(INSTRUCTION, config)
    assert ids.dtype == np.int64 and len(ids) >= 4 and ids.min() >= 0 and ids.max() < size, ids
    assert suffix == ()
    engine = NumpyEngine(config, weights)
    try:
        engine.load()
        slots = config.cache.page_slots
        pages = list(range(1, 1 + -(-len(ids) // slots)))
        fills = [min(slots, len(ids) - slots * index) for index in range(len(pages))]
        engine.write_prompt(ids, pages)
        seen = np.array([[*pages, 7], [*fills, config.frame.tokens]], np.int32)
        view = CacheView(seen[0], seen[1], action_page=0)
        engine.embed_frame(np.full((config.frame.height, config.frame.width, 3), 99, np.uint8))
        engine.prefill(view)
        decoded = engine.decode(view, 3, lambda _: False)
        assert np.isfinite(engine.hidden).all() and np.isfinite(engine.logits()).all(), "not finite"
        assert len(decoded.tokens) == 3 and all(0 <= token < size for token in decoded.tokens), decoded
    finally:
        engine.close()
    return ids.tolist()


def _check_tensor(weights: Any, name: str) -> None:
    kind, elements = weights.raw(name)
    values = weights.tensor(name)
    assert values.dtype == np.float32 and values.shape == tensor_shapes(weights.config)[name]
    own = bfloat16_to_float32(elements) if kind == "bfloat16" else elements.astype(np.float32)
    assert np.array_equal(values, own, equal_nan=True)
