# SPDX-License-Identifier: Apache-2.0
"""What integer weights, keys and values cost in accuracy, and that the kernels add nothing to it.

For each format the engine and Hugging Face transformers, in float32 on the values the format leaves, run the
same chunks; both are compared with transformers in float32 on the original weights. The second comparison is
what the format itself costs, whoever computes: an engine without faults is as far from the original as it is.

A chunk is a prompt, frames, and 7 decode steps of the engine's own tokens, from an empty cache: every key
and value is each model's own. Two models: seeded normal weights at the full size, and small ones with
outliers as trained weights have them (``outlier_weights.py``; made, not trained). For int8 keys and values
the weights stay bfloat16, and the third comparison is with the usual rule, a scale for each token and head.
Heads are untied, since with a tied one random weights answer each token with itself, and all would agree.

Run ``python -m vla_edge_ros.bench.kernels.weight_accuracy``.
"""

from __future__ import annotations

import argparse
import gc
from dataclasses import dataclass, replace
from typing import Any

import cupy
import numpy as np
import torch
from numpy.typing import NDArray

from vla_edge_ros.bench.kernels import huggingface_reference as reference
from vla_edge_ros.bench.kernels import inspection
from vla_edge_ros.bench.kernels.outlier_weights import OutlierWeights
from vla_edge_ros.bench.report import command, print_table, write_json
from vla_edge_ros.config import CacheConfig, EngineConfig, VlaConfig
from vla_edge_ros.console import console_program
from vla_edge_ros.engines.cuda.engine import CudaEngine
from vla_edge_ros.model.decoder_config import QWEN2_5_CODER_1_5B, DecoderConfig
from vla_edge_ros.model.kept_kv import kept_kv
from vla_edge_ros.model.random_weights import RandomWeights
from vla_edge_ros.model.weights import Weights
from vla_edge_ros.types import CacheView

FORMATS = ("bf16", "int8", "int4")
PROMPT_TOKENS, FRAMES, ACTION_TOKENS = 23, 4, 8
SEED = 3

Float = NDArray[np.float32]

RANDOM_1_5B = replace(QWEN2_5_CODER_1_5B, tie_word_embeddings=False)
OUTLIERS = DecoderConfig(
    hidden_size=768,
    intermediate_size=2432,
    num_hidden_layers=8,
    num_attention_heads=12,
    num_key_value_heads=2,
    head_dim=64,
    vocab_size=4096,
    tie_word_embeddings=False,
)


@dataclass(frozen=True)
class Chunk:
    """What the engine was fed, and what it made of it."""

    prompt: NDArray[np.int64]
    vision: Float  # [frames * tokens, hidden]
    tokens: tuple[int, ...]
    hidden: Float  # [last frame's tokens + decode steps, hidden]
    logits: Float  # [action tokens, head rows]


def run_chunk(engine: CudaEngine, seed: int) -> Chunk:
    """Prompt and ``FRAMES`` frames into an empty cache, then an action."""
    rng, sizes = np.random.default_rng(seed), engine.sizes
    width, height, _ = sizes.frame
    prompt = rng.integers(0, sizes.decoder.vocab_size, PROMPT_TOKENS)
    pages = rng.permutation(sizes.pages).astype(np.int32)
    engine.write_prompt(prompt, [int(pages[0])])
    shape = (sizes.prefill.tokens, sizes.decoder.hidden_size)
    vision = []
    for count in range(1, FRAMES + 1):
        fills = np.array([PROMPT_TOKENS, *[sizes.frame_tokens] * count], np.int32)
        view = CacheView(pages[: count + 1], fills, int(pages[-1]))
        engine.embed_frame(rng.integers(0, 256, (height, width, 3), np.uint8))
        engine.prefill(view)
        vision.append(engine.buffers.array("tokens_in", np.float32, shape).get()[: sizes.frame_tokens])
    engine.steps.use(engine.steps.kind, ahead=False)  # each step's results are read before the next one
    hidden, logits = [inspection.hidden(engine, "prefill")[: sizes.frame_tokens]], [inspection.logits(engine)]

    def keep(step_ms: tuple[float, ...]) -> bool:
        if step_ms:
            hidden.append(inspection.hidden(engine, "decode"))
            logits.append(inspection.logits(engine))
        return False

    tokens = engine.decode(view, ACTION_TOKENS, keep).tokens
    keep((0.0,))
    return Chunk(prompt, np.concatenate(vision), tokens, np.concatenate(hidden), np.stack(logits))


def reference_chunk(model: Any, chunk: Chunk, head_first: int) -> tuple[Float, Float]:
    """The same hidden rows and logits from ``model``, in one causal pass over the chunk's whole sequence."""
    device = model.device
    table = model.model.embed_tokens.weight
    embedded = torch.cat(
        [
            table[torch.from_numpy(chunk.prompt).to(device)],
            torch.from_numpy(chunk.vision).to(device),
            table[torch.tensor(chunk.tokens[:-1], device=device)],
        ]
    )
    with torch.no_grad():
        rows = model.model(inputs_embeds=embedded[None], use_cache=False).last_hidden_state[0]
    kept = rows[-len(chunk.hidden) :]
    logits = kept[-len(chunk.tokens) :] @ model.lm_head.weight[head_first:].T
    return kept.cpu().numpy(), logits.cpu().numpy()


def compare(hidden: Float, logits: Float, exact_hidden: Float, exact_logits: Float) -> dict[str, float]:
    """Distances of one model's rows from the exact ones, over all chunks together."""
    dots = (hidden * exact_hidden).sum(-1)
    cosine = dots / np.linalg.norm(hidden, axis=-1) / np.linalg.norm(exact_hidden, axis=-1)
    best = exact_logits.argmax(-1)
    chosen = np.take_along_axis(exact_logits, logits.argmax(-1)[:, None], 1)[:, 0]
    top_two = np.sort(exact_logits, axis=-1)[:, -2:]
    return {
        "least_cosine": float(cosine.min()),
        "relative_error": float(np.linalg.norm(hidden - exact_hidden) / np.linalg.norm(exact_hidden)),
        "most_difference": float(np.abs(hidden - exact_hidden).max()),
        "top_1_agreement": float((logits.argmax(-1) == best).mean()),
        "median_margin": float(np.median(top_two[:, 1] - top_two[:, 0])),
        "most_given_up": float((exact_logits.max(-1) - chosen).max()),
    }


def format_rows(model_name: str, weights: Weights, kept_as: str, chunks: int) -> list[dict[str, Any]]:
    """Rows of one model in one format: the engine, and float32 on the same values, against the original.

    Then the engine against that float32: what the kernels add.
    """
    engine = CudaEngine(
        VlaConfig(engine=EngineConfig(weights=kept_as), cache=CacheConfig(capacity_slots=1024)), weights
    )
    engine.load()
    made = [run_chunk(engine, seed) for seed in range(chunks)]
    model = reference.model_of(engine, weights)
    first = engine.sizes.head_first
    exact = [reference_chunk(model, chunk, first) for chunk in made]
    reference.quantise_model(model, kept_as)
    quantised = [reference_chunk(model, chunk, first) for chunk in made]
    close(engine, model)
    ours = joined([(chunk.hidden, chunk.logits) for chunk in made])
    simple, original = joined(quantised), joined(exact)
    rows = (
        ("vla_edge_ros", "original", compare(*ours, *original)),
        ("float32 of the same values", "original", compare(*simple, *original)),
        ("vla_edge_ros", "the same values", compare(*ours, *simple)),
    )
    return [
        {
            "model": model_name,
            "weights": kept_as,
            "kv": "bf16",
            "computed_by": by,
            "against": against,
            **figures,
        }
        for by, against, figures in rows
    ]


def kv_rows(model_name: str, weights: Weights, chunks: int) -> list[dict[str, Any]]:
    """Rows of one model with int8 keys and values: the engine, float32 with its rule, with the usual rule."""
    engine = CudaEngine(
        VlaConfig(engine=EngineConfig(kv="int8"), cache=CacheConfig(capacity_slots=1024)), weights
    )
    engine.load()
    made = [run_chunk(engine, seed) for seed in range(chunks)]
    model = reference.model_of(engine, weights)
    first = engine.sizes.head_first
    exact = [reference_chunk(model, chunk, first) for chunk in made]
    by_rule = []
    for rule in (kept_kv, reference.largest_by_127):
        with reference.kept_keys_and_values(model, rule):
            by_rule.append([reference_chunk(model, chunk, first) for chunk in made])
    close(engine, model)
    original = joined(exact)
    ours = joined([(chunk.hidden, chunk.logits) for chunk in made])
    rows = (
        ("vla_edge_ros", compare(*ours, *original)),
        ("float32, the same rule", compare(*joined(by_rule[0]), *original)),
        ("float32, largest / 127 a head", compare(*joined(by_rule[1]), *original)),
    )
    return [
        {
            "model": model_name,
            "weights": "bf16",
            "kv": "int8",
            "computed_by": by,
            "against": "original",
            **figures,
        }
        for by, figures in rows
    ]


def joined(pairs: list[tuple[Float, Float]]) -> tuple[Float, Float]:
    return np.concatenate([pair[0] for pair in pairs]), np.concatenate([pair[1] for pair in pairs])


def close(engine: CudaEngine, model: Any) -> None:
    """Give back what both hold on the device; the caller keeps no other reference to ``model``'s tensors."""
    engine.close()
    model.to("meta")
    gc.collect()
    torch.cuda.empty_cache()
    cupy.get_default_memory_pool().free_all_blocks()


def models() -> dict[str, Weights]:
    return {
        "random 1.5 B": RandomWeights(RANDOM_1_5B, SEED),
        "outliers 60 M": OutlierWeights(OUTLIERS, SEED),
    }


@console_program
def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chunks", type=int, default=16, help="chunks a model and format, 8 tokens each")
    parser.add_argument("--json", default="", help="write the rows here")
    chosen = parser.parse_args(arguments)
    rows = []
    for name, weights in models().items():
        for kept_as in FORMATS:
            rows += format_rows(name, weights, kept_as, chosen.chunks)
        rows += kv_rows(name, weights, chosen.chunks)
        print_table(rows)
    if chosen.json:
        write_json(chosen.json, command("kernels.weight_accuracy", arguments), rows)


if __name__ == "__main__":
    main()
