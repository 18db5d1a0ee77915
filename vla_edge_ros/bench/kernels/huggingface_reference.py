# SPDX-License-Identifier: Apache-2.0
"""The same decoder in Hugging Face transformers, over the same cached keys and values: the outside judge.

Needs torch and transformers, which the package does not depend on; used by GPU tests and benchmarks only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import cupy
import numpy as np
import torch
import transformers.models.llama.modeling_llama as llama
import transformers.models.qwen2.modeling_qwen2 as qwen2
from numpy.typing import NDArray
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from vla_edge_ros.bench.kernels import inspection
from vla_edge_ros.engines.cuda.engine import CudaEngine
from vla_edge_ros.engines.numpy_ops import rope_angles, rotate
from vla_edge_ros.model.decoder_config import DecoderConfig
from vla_edge_ros.model.quantise import GROUP, format_of
from vla_edge_ros.model.random_weights import RandomWeights, scale_and_offset, tensor_key
from vla_edge_ros.model.weights import Weights

_GENERATOR_BLOCKS, _GENERATOR_THREADS = 2048, 256


def empty_model(decoder: DecoderConfig, device: str) -> Any:
    """A float32 model of these sizes whose weights are still to be set. Qwen2 where QKV has a bias."""
    config_class, model_class = (
        (Qwen2Config, Qwen2ForCausalLM) if decoder.qkv_bias else (LlamaConfig, LlamaForCausalLM)
    )
    config = config_class(
        hidden_size=decoder.hidden_size,
        intermediate_size=decoder.intermediate_size,
        num_hidden_layers=decoder.num_hidden_layers,
        num_attention_heads=decoder.num_attention_heads,
        num_key_value_heads=decoder.num_key_value_heads,
        head_dim=decoder.head_dim,
        vocab_size=decoder.vocab_size,
        rms_norm_eps=decoder.rms_norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": decoder.rope_theta},
        tie_word_embeddings=decoder.tie_word_embeddings,
        max_position_embeddings=decoder.max_position_embeddings,
        attn_implementation="sdpa",
    )
    with torch.device(device):
        return model_class(config).eval().requires_grad_(False)


def random_model(engine: CudaEngine, weights: RandomWeights) -> Any:
    """The model with the engine's own seeded weights, made on the device tensor by tensor."""
    model = empty_model(weights.config, "cuda")
    kernel = engine.kernels["loading"]["random_bfloat16"]
    for name, parameter in model.named_parameters():
        bits = cupy.empty(parameter.numel(), np.int16)
        scale, offset = scale_and_offset(name)
        key = int(tensor_key(weights.seed, name))
        cupy.cuda.runtime.deviceSynchronize()
        kernel.launch(
            0, (_GENERATOR_BLOCKS, 1, 1), _GENERATOR_THREADS, 0,
            bits.data.ptr, key, 0, parameter.numel(), scale, offset,
        )  # fmt: skip
        cupy.cuda.runtime.deviceSynchronize()
        made = torch.as_tensor(bits, device="cuda").view(torch.bfloat16)
        parameter.copy_(made.reshape(parameter.shape))
    torch.cuda.synchronize()
    return model


def model_of(engine: CudaEngine, weights: Weights) -> Any:
    """The float32 model with these weights, tensor by tensor."""
    if isinstance(weights, RandomWeights):
        return random_model(engine, weights)
    model = empty_model(weights.config, "cuda")
    for name, parameter in model.named_parameters():
        parameter.copy_(torch.from_numpy(weights.tensor(name)))
    return model


def quantise_model(model: Any, weights: str) -> None:
    """Leave in ``model`` what ``engine.weights`` = ``weights`` keeps of it: the rules of quantise.py."""
    for name, parameter in model.named_parameters():
        kept_as = format_of(name, weights)
        if kept_as == "int8":
            scale = parameter.abs().amax(dim=1, keepdim=True) / 127
            parameter.copy_(_nearest(parameter, scale, -127, 127) * scale)
        elif kept_as == "int4":
            for first in range(0, parameter.shape[1], GROUP):
                group = parameter[:, first : first + GROUP]
                high, low = group.amax(dim=1, keepdim=True), group.amin(dim=1, keepdim=True)
                scale = (torch.where(high >= -low, high, low) / -8).bfloat16().float()
                group.copy_(_nearest(group, scale, -8, 7) * scale)


@contextmanager
def kept_keys_and_values(
    model: Any, rule: Callable[[NDArray[np.float32]], NDArray[np.float32]]
) -> Iterator[None]:
    """``model`` with what ``rule`` leaves of keys and values, ``[..., head dim]`` each, in every layer.

    Keys are rotated to their positions before, where the engine rotates them by their slot in the page: the
    same numbers in other pairs' proportions, and errors of the same size.
    """
    module = qwen2 if isinstance(model, Qwen2ForCausalLM) else llama
    rotated = module.apply_rotary_pos_emb

    def kept(values: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(rule(values.float().cpu().numpy())).to(values.device, values.dtype)

    def rotate_and_keep(*arguments: Any, **named: Any) -> tuple[torch.Tensor, torch.Tensor]:
        query, key = rotated(*arguments, **named)
        return query, kept(key)

    def keep_values(projection: Any, _: Any, out: torch.Tensor) -> torch.Tensor:
        return kept(out.unflatten(-1, (-1, model.config.head_dim))).flatten(-2)

    hooks = [layer.self_attn.v_proj.register_forward_hook(keep_values) for layer in model.model.layers]
    module.apply_rotary_pos_emb = rotate_and_keep
    try:
        yield
    finally:
        module.apply_rotary_pos_emb = rotated
        for hook in hooks:
            hook.remove()


def largest_by_127(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The usual int8 of keys and values: a scale for each token and head, its largest number / 127."""
    scale = np.abs(values).max(-1, keepdims=True) / np.float32(127)
    return np.rint(values / np.where(scale == 0, 1, scale)) * scale


def _nearest(values: torch.Tensor, scale: torch.Tensor, least: int, most: int) -> torch.Tensor:
    steps = torch.where(scale == 0, torch.zeros_like(values), values / scale)
    return steps.round().clamp(least, most)


def in_bfloat16(model: Any, exact: Any) -> Any:
    """``model`` as transformers loads it in bfloat16: with the rotary frequencies of ``exact``, in float32.

    ``.to(bfloat16)`` alone would round them too, and at rank 4,000 an angle would be wrong by radians.
    """
    half = model.to(torch.bfloat16)
    half.model.rotary_emb = exact.model.rotary_emb
    return half


def cached_pages(
    engine: CudaEngine, pages: NDArray[np.int32], fills: NDArray[np.int32], dtype: torch.dtype
) -> DynamicCache:
    """What the engine keeps in ``pages``, as a cache with keys at the ranks the engine gives them."""
    decoder = engine.sizes.decoder
    cache = DynamicCache()
    bases = np.repeat(np.cumsum(fills) - fills, fills)
    cosine, sine = rope_angles(engine.sizes.ranks, decoder.head_dim, decoder.rope_theta)
    valid = np.arange(engine.sizes.page_slots) < np.asarray(fills)[:, None]
    for layer in range(decoder.num_hidden_layers):
        keys, values = (kv[pages].transpose(1, 0, 2, 3)[:, valid] for kv in inspection.read_kv(engine, layer))
        keys = rotate(keys, cosine[bases], sine[bases])
        cache.update(*(torch.from_numpy(kv)[None].to("cuda", dtype) for kv in (keys, values)), layer)
    return cache


def forward(model: Any, embedded: torch.Tensor, cache: DynamicCache) -> torch.Tensor:
    """Normed hidden states ``[tokens, hidden]`` of ``embedded`` behind what ``cache`` holds; it grows."""
    past = cache.get_seq_length()
    positions = torch.arange(past, past + len(embedded), device=embedded.device)[None]
    with torch.no_grad():
        out = model.model(
            inputs_embeds=embedded[None], past_key_values=cache, position_ids=positions, use_cache=True
        )
    return out.last_hidden_state[0]
