# SPDX-License-Identifier: Apache-2.0
"""``python -m vla_edge_ros.training.export``: a checkpoint of training as a Hugging Face model folder.

Weights are rounded to bfloat16, as the engines hold them. The tokenizer has a word for a token. What only
training needs (the auxiliary positions) stays behind.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from safetensors.torch import save
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.nn import functional

from vla_edge_ros.console import console_program
from vla_edge_ros.model.tensor_shapes import (
    ACTION_QUERIES,
    EMBEDDING,
    FINAL_NORM,
    LM_HEAD,
    PATCH_PROJECTION,
    layer_prefix,
)
from vla_edge_ros.sequence import Decoding
from vla_edge_ros.training.instructions import UNKNOWN, word_ids
from vla_edge_ros.training.network import PolicyNetwork
from vla_edge_ros.training.policy import new_network

SMOOTH_BINS = 20.0  # 63 mm/s; found on seeds of training


def parameters_of(network: PolicyNetwork) -> dict[str, torch.Tensor]:
    """The parameters that an engine reads, by their names in a Hugging Face checkpoint."""
    named: dict[str, torch.Tensor] = {
        EMBEDDING: network.embedding.weight,
        LM_HEAD: network.head.weight,
        FINAL_NORM: network.final_norm.weight,
        PATCH_PROJECTION: network.patch_projection.weight,
    }
    if network.decoding is Decoding.PARALLEL:
        named[ACTION_QUERIES] = network.action_queries
    for number, layer in enumerate(network.layers):
        for name, parameter in layer.named_parameters():
            named[layer_prefix(number) + _hugging_face_name(name)] = parameter
    return named


def tensors_of(network: PolicyNetwork) -> dict[str, torch.Tensor]:
    """``parameters_of`` rounded to bfloat16, to be saved."""
    return {
        name: parameter.detach().to(torch.bfloat16).contiguous().cpu()
        for name, parameter in parameters_of(network).items()
    }


def smooth_head(network: PolicyNetwork, bins: float) -> None:
    """Average the head's rows over neighbouring bins, by a Gaussian of ``bins`` standard deviations.

    The engines command the likeliest bin. Of a hand that rests on its target all frames have the same label,
    no motion, so near the target that one bin stands out from a hill of velocities which together are
    likelier, and the hand stops short. Averaged logits have their maximum on the hill. Rows beyond the ends
    are those of the end, so that full speed stays full speed.
    """
    if bins <= 0:
        return
    reach = math.ceil(4 * bins)
    kernel = torch.exp(-(torch.arange(-reach, reach + 1) ** 2) / (2 * bins**2))
    rows = network.head.weight.detach()[-network.bins :]
    padded = functional.pad(rows.T[:, None], (reach, reach), mode="replicate")
    smooth = functional.conv1d(padded, (kernel / kernel.sum())[None, None].to(rows))
    with torch.no_grad():
        network.head.weight[-network.bins :] = smooth[:, 0].T


def _hugging_face_name(name: str) -> str:
    part, _, kind = name.partition(".")
    if part in ("q", "k", "v", "o"):
        return f"self_attn.{part}_proj.{kind}"
    if part in ("gate", "up", "down"):
        return f"mlp.{part}_proj.{kind}"
    return {"input_norm": "input_layernorm", "post_attention_norm": "post_attention_layernorm"}[
        part
    ] + f".{kind}"


def export(network: PolicyNetwork, folder: Path, tasks: Iterable[str] = ()) -> None:
    """Write ``folder`` with config.json, model.safetensors, tokenizer.json and tokenizer_config.json.

    ``tasks``: files of tasks (``own_task.py``) that it was trained with, whose words are in the tokenizer.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # Not by save_file, which leaves a file that only its owner may read.
    (folder / "model.safetensors").write_bytes(save(tensors_of(network), metadata={"format": "pt"}))
    sizes = network.sizes
    config = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": sizes.hidden_size,
        "intermediate_size": sizes.intermediate_size,
        "num_hidden_layers": sizes.num_hidden_layers,
        "num_attention_heads": sizes.num_attention_heads,
        "num_key_value_heads": sizes.num_key_value_heads,
        "head_dim": sizes.head_dim,
        "vocab_size": sizes.vocab_size,
        "rope_theta": sizes.rope_theta,
        "rms_norm_eps": sizes.rms_norm_eps,
        "tie_word_embeddings": sizes.tie_word_embeddings,
        "max_position_embeddings": sizes.max_position_embeddings,
        "hidden_act": "silu",
        "torch_dtype": "bfloat16",
    }
    _write_json(folder / "config.json", config)
    tokenizer = Tokenizer(models.WordLevel(word_ids(tasks), unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": UNKNOWN}
    _write_json(folder / "tokenizer_config.json", settings)


def _write_json(path: Path, values: Mapping[str, object]) -> None:
    path.write_text(json.dumps(values, indent=2) + "\n")


@console_program
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkpoint", type=Path, help="what training wrote (.pt)")
    parser.add_argument("folder", type=Path, help="model folder to write")
    parser.add_argument("--decoding", choices=[entry.value for entry in Decoding], default="parallel")
    parser.add_argument(
        "--smooth-bins", type=float, default=SMOOTH_BINS, help="see smooth_head; 0: the head as trained"
    )
    parser.add_argument("--task", help="the file that training was given")
    options = parser.parse_args()
    network = new_network(Decoding(options.decoding))
    network.load_state_dict(torch.load(options.checkpoint, map_location="cpu", weights_only=True))
    smooth_head(network, options.smooth_bins)
    export(network, options.folder, [options.task] if options.task else [])
    print(f"wrote {options.folder}")


if __name__ == "__main__":
    main()
