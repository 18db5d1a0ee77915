# SPDX-License-Identifier: Apache-2.0
"""A family of small model folders: what config.json files say, and what tensors lie beside them.

A case is ``{"base": ..., "config": {key: value}, "tensors": [...], "sizes": {...}}``: changes of a base
config, ``ABSENT`` for a key that is left out; changes of the tensors; sizes of the tensors that are not the
base's. Used by ``make_config_family.py``, which keeps transformers' answers, and by the test of that name.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

Case = dict[str, Any]
ABSENT = "<absent>"
TOKENS = np.array([3, 1, 4, 15, 9, 2, 6, 5, 35, 8, 9, 7])
BASES: dict[str, dict[str, Any]] = {
    "qwen2": {
        "model_type": "qwen2",
        "hidden_size": 32,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 40,
        "rope_theta": 100.0,
        "tie_word_embeddings": True,
        "use_sliding_window": False,
    },
    "llama": {
        "model_type": "llama",
        "hidden_size": 32,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 40,
        "rope_theta": 100.0,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True,
    },
}
DEFAULT_ROPE = {"rope_type": "default", "rope_theta": 100.0}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8,
}
ROPES: list[Any] = [
    ABSENT,
    None,
    {},
    [],
    "default",
    False,
    DEFAULT_ROPE,
    {"rope_type": "default"},
    {"type": "default"},
    {"rope_theta": 100},
    {"rope_type": "default", "rope_theta": 7.0},
    {"rope_type": "default", "rope_theta": "100"},
    {"rope_type": "default", "rope_theta": None},
    {"rope_type": None, "rope_theta": 100.0},
    {"rope_type": "default", "factor": 4.0},
    {"rope_type": "default", "partial_rotary_factor": 0.5},
    {"rope_type": "default", "partial_rotary_factor": 1.0},
    {"rope_type": "default", "type": "linear", "factor": 4.0},
    {"rope_type": "linear", "factor": 4.0},
    {"rope_type": "linear", "factor": 1.0},
    {"type": "linear", "factor": 4.0},
    {"type": "linear", "factor": 4.0, "rope_theta": 7.0},
    {"rope_type": "dynamic", "factor": 4.0},
    {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8},
    {"type": "mrope", "mrope_section": [1, 1, 2]},
    LLAMA3,
    {"full_attention": DEFAULT_ROPE},
    {"full_attention": DEFAULT_ROPE, "sliding_attention": {"rope_type": "linear", "factor": 4.0}},
    {"full_attention": {"rope_type": "default", "rope_theta": 7.0}, **DEFAULT_ROPE},
]
FLAGS: list[Any] = [ABSENT, None, True, False, "false", "true", 0, 1, []]
VALUES: dict[str, list[Any]] = {
    "rope_parameters": ROPES,
    "rope_scaling": ROPES,
    "rope_theta": [ABSENT, None, 100, 100.0, 7.0, 10000.0, "100", True, 0, -1.0, [], {}],
    "partial_rotary_factor": [ABSENT, None, 1.0, 1, 0.5, True, "1.0"],
    "tie_word_embeddings": FLAGS,
    "use_sliding_window": FLAGS,
    "attention_bias": FLAGS,
    "mlp_bias": FLAGS,
    "is_causal": FLAGS,
    "sliding_window": [ABSENT, None, 2, 4096, "2", True],
    "max_window_layers": [ABSENT, None, 0, 1, 2, 28, "1"],
    "layer_types": [
        ABSENT,
        None,
        3,
        [],
        "full_attention",
        ["full_attention"],
        ["full_attention"] * 2,
        ["full_attention"] * 3,
        ["full_attention", "sliding_attention"],
        ["sliding_attention"] * 2,
        [["full_attention"], "full_attention"],
    ],
    "head_dim": [ABSENT, None, 8, 16, 7, 0, "8", 8.0, True],
    "num_key_value_heads": [ABSENT, None, 2, 4, 1, 3, 0, "2", 2.0],
    "num_attention_heads": [ABSENT, None, 4, 2, 8, "4"],
    "num_hidden_layers": [ABSENT, None, 1, 2, 3, "2"],
    "hidden_size": [ABSENT, 32, 16, 30, "32"],
    "vocab_size": [ABSENT, 40, 39, 41],
    "intermediate_size": [24, 12],
    "rms_norm_eps": [ABSENT, None, 1e-5, 1e-2, "1e-5", -1.0, True, 1],
    "hidden_act": [ABSENT, "silu", "gelu", "swish", None, 1],
    "model_type": ["qwen2", "llama", "mistral", "qwen3", None, ["qwen2"], ABSENT],
    "quantization_config": [ABSENT, None, {}, {"quant_method": "awq"}],
    "max_position_embeddings": [ABSENT, 64, None, "64"],
    "per_layer_config": [ABSENT, None, {}, {"0": {"rms_norm_eps": 0.5}}],
    "pretraining_tp": [ABSENT, 1, 2],
    "architectures": [ABSENT, ["Qwen2ForCausalLM"], ["LlamaForCausalLM"], ["Qwen2Model"]],
}
SIZES: list[dict[str, int]] = [
    {},
    {"num_key_value_heads": 4},
    {"head_dim": 16},
    {"num_hidden_layers": 1},
    {"num_hidden_layers": 3},
]
TENSORS = (
    "other head",
    "same head",
    "bias of q, k, v",
    "no bias",
    "bias of o",
    "norm of q",
    "rotary frequencies",
    "a value head",
    "an adapter",
    "no final norm",
    "float16",
)


def config_of(case: Case) -> dict[str, Any]:
    values = {**BASES[case["base"]], **case["config"]}
    return {key: value for key, value in values.items() if value != ABSENT}


def tensors_of(case: Case) -> dict[str, NDArray[Any]]:
    """Large enough that attention is peaked: a wrong rotation then shows in the logits."""
    sizes = {**BASES[case["base"]], "head_dim": 8, **case["sizes"]}
    changes = case["tensors"]
    random = np.random.RandomState(0)  # the only generator of NumPy whose numbers never change
    hidden, inner = sizes["hidden_size"], sizes["intermediate_size"]
    q, kv = (sizes[key] * sizes["head_dim"] for key in ("num_attention_heads", "num_key_value_heads"))

    def normal(*shape: int) -> NDArray[np.float32]:
        return (0.3 * random.standard_normal(shape)).astype(np.float32)

    has_bias = (case["base"] == "qwen2" or "bias of q, k, v" in changes) and "no bias" not in changes
    tensors = {"model.embed_tokens.weight": normal(sizes["vocab_size"], hidden)}
    for layer in range(sizes["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        tensors[at + "input_layernorm.weight"] = 1 + normal(hidden)
        for name, size in (("q", q), ("k", kv), ("v", kv)):
            tensors[f"{at}self_attn.{name}_proj.weight"] = normal(size, hidden)
            bias = normal(size)
            if has_bias:
                tensors[f"{at}self_attn.{name}_proj.bias"] = bias
        tensors[at + "self_attn.o_proj.weight"] = normal(hidden, q)
        tensors[at + "post_attention_layernorm.weight"] = 1 + normal(hidden)
        tensors[at + "mlp.gate_proj.weight"] = normal(inner, hidden)
        tensors[at + "mlp.up_proj.weight"] = normal(inner, hidden)
        tensors[at + "mlp.down_proj.weight"] = normal(hidden, inner)
    tensors["model.norm.weight"] = 1 + normal(hidden)
    embedding = tensors["model.embed_tokens.weight"]
    first = "model.layers.0.self_attn."
    optional = {
        "other head": ("lm_head.weight", normal(*embedding.shape)),
        "same head": ("lm_head.weight", embedding.copy()),
        "bias of o": (first + "o_proj.bias", normal(hidden)),
        "norm of q": (first + "q_norm.weight", normal(sizes["head_dim"])),
        "rotary frequencies": (first + "rotary_emb.inv_freq", normal(sizes["head_dim"] // 2)),
        "a value head": ("v_head.summary.weight", normal(1, hidden)),
        "an adapter": (first + "q_proj.lora_A.weight", normal(2, hidden)),
    }
    tensors |= dict(optional[change] for change in changes if change in optional)
    if "no final norm" in changes:
        del tensors["model.norm.weight"]
    if "float16" in changes:
        tensors = {name: values.astype(np.float16) for name, values in tensors.items()}
    return tensors


def write_folder(folder: Path, case: Case) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config_of(case)))
    save_file(tensors_of(case), folder / "model.safetensors", {"format": "pt"})


def digest(logits: NDArray[np.float32]) -> list[float]:
    """Seven numbers in which any difference shows: each token's row on one random direction."""
    direction = np.random.RandomState(1).standard_normal(logits.shape[1])
    return [round(float(value), 4) for value in logits.astype(np.float64)[-7:] @ direction]


def transformers_logits(folder: Path) -> NDArray[np.float32] | None:
    """``[tokens, vocabulary]``, or None where transformers fails, or invents weights that are missing."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        model, info = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
        )
        if info["missing_keys"] or info["mismatched_keys"]:
            return None
        with torch.no_grad():
            logits = model.eval()(torch.tensor(TOKENS)[None]).logits[0].numpy()
    except Exception:  # whatever a config of a wrong type leads to
        return None
    return logits if np.isfinite(logits).all() else None
