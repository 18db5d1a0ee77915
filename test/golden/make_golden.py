# SPDX-License-Identifier: Apache-2.0
"""Write the golden checkpoints and vectors beside this file from Hugging Face's own Qwen2 and Llama.

Run once, by hand, where torch and transformers are installed (made with torch 2.13 and transformers 5.24)::

    python test/golden/make_golden.py

A case is a folder as ``save_pretrained`` writes it, with random weights, plus ``vectors.npz``: what the model
answers for a prompt, then chunk by chunk for a stream of frames with evictions in between. The tests compare
the NumPy engine with it; they need neither library.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

HERE = Path(__file__).parent
PATCH, WIDTH, HEIGHT, TOKENS = 8, 32, 16, 8
ACTIONS, BINS, PROMPT_TOKENS = 8, 64, 11
EVICTED_BEFORE = {3: 1, 4: 0, 5: 3}  # chunk -> frame that is forgotten before it; frame i came with chunk i
CHUNKS = 6

SHARED = {"hidden_size": 32, "num_hidden_layers": 2, "max_position_embeddings": 512}
ROPE_1E6 = {"rope_type": "default", "rope_theta": 1e6}
ROPE_5E5 = {"rope_type": "default", "rope_theta": 5e5}
CASES = {  # name: (model, its config, seed, sizes)
    "qwen2_tied": (
        Qwen2ForCausalLM,
        Qwen2Config,
        0,
        dict(num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True, intermediate_size=48)
        | dict(vocab_size=320, rope_parameters=ROPE_1E6),
    ),
    "qwen2_untied_own_head_dim": (
        Qwen2ForCausalLM,
        Qwen2Config,
        1,
        dict(num_attention_heads=3, num_key_value_heads=1, tie_word_embeddings=False, intermediate_size=40)
        | dict(vocab_size=200, head_dim=20, rms_norm_eps=1e-5, num_hidden_layers=3),
    ),
    "llama_untied_multi_head": (
        LlamaForCausalLM,
        LlamaConfig,
        2,
        dict(num_attention_heads=3, num_key_value_heads=3, tie_word_embeddings=False, intermediate_size=56)
        | dict(vocab_size=200, hidden_size=36, rms_norm_eps=1e-5),
    ),
    "llama_tied_sharded": (
        LlamaForCausalLM,
        LlamaConfig,
        3,
        dict(num_attention_heads=8, num_key_value_heads=2, tie_word_embeddings=True, intermediate_size=64)
        | dict(vocab_size=320, head_dim=16, rope_parameters=ROPE_5E5),
    ),
}


def main() -> None:
    torch.set_grad_enabled(False)
    for name, (model_class, config_class, seed, own_sizes) in CASES.items():
        sizes = SHARED | own_sizes
        folder = HERE / name
        shutil.rmtree(folder, ignore_errors=True)
        model = random_model(model_class, config_class(**sizes), seed)
        projection = (0.05 * torch.randn(sizes["hidden_size"], PATCH * PATCH * 3)).bfloat16()
        save_folder(model, projection, folder, sharded=name.endswith("sharded"))
        # Loaded anew: cast back to float32, the rotary frequencies would stay rounded to bfloat16.
        model = model_class.from_pretrained(folder, dtype=torch.float32).eval()
        vectors = Stream(model, projection.float(), seed).run()
        np.savez_compressed(folder / "vectors.npz", **vectors)
        print(name, sum(file.stat().st_size for file in folder.iterdir()) // 1000, "kB")


def random_model(model_class, config, seed):
    """Weights large enough that attention is peaked and logits differ: 0.02 would hide a wrong rotation."""
    torch.manual_seed(seed)
    model = model_class(config).eval()
    for name, parameter in model.named_parameters():
        is_norm = name.endswith("norm.weight")
        parameter.copy_((1.0 if is_norm else 0.0) + 0.3 * torch.randn_like(parameter))
    return model.bfloat16()


def save_folder(model, projection, folder, sharded):
    """``save_pretrained``, then our patch projection beside the model's own tensors."""
    model.save_pretrained(folder, **({"max_shard_size": "20KB"} if sharded else {}))
    (folder / "generation_config.json").unlink(missing_ok=True)
    index_path = folder / "model.safetensors.index.json"
    if sharded:
        index = json.loads(index_path.read_text())
        index["weight_map"]["vla.patch_projection"] = "projection.safetensors"
        index_path.write_text(json.dumps(index, indent=1) + "\n")
        save_file({"vla.patch_projection": projection}, folder / "projection.safetensors")
    else:
        path = folder / "model.safetensors"
        save_file({**load_file(path), "vla.patch_projection": projection}, path, {"format": "pt"})


class Stream:
    """Plays prompt and frames through one model; keeps each token's raw keys and values, by layer."""

    def __init__(self, model, projection, seed):
        self.model, self.projection = model, projection
        config = model.config
        self.layers, self.kv_heads = config.num_hidden_layers, config.num_key_value_heads
        self.head_dim = model.model.layers[0].self_attn.head_dim
        self.theta = config.rope_parameters["rope_theta"]
        self.first_action = config.vocab_size - BINS
        rng = np.random.default_rng(seed)
        self.prompt = rng.integers(0, self.first_action, PROMPT_TOKENS)
        self.pixels = rng.integers(0, 256, (CHUNKS, HEIGHT, WIDTH, 3), dtype=np.uint8)
        self.raw = {}
        for layer, block in enumerate(model.model.layers):
            for kind in ("k", "v"):
                projection_layer = getattr(block.self_attn, f"{kind}_proj")
                projection_layer.register_forward_hook(self.recorder(layer, kind))

    def recorder(self, layer, kind):
        def record(module, inputs, output):
            self.raw[layer, kind] = output[0].reshape(-1, self.kv_heads, self.head_dim).transpose(0, 1)

        return record

    def new_keys_values(self):
        return [(self.raw[layer, "k"].clone(), self.raw[layer, "v"].clone()) for layer in range(self.layers)]

    def run(self):
        vectors = {"prompt": self.prompt, "pixels": self.pixels}
        hidden, logits, _ = self.forward(
            self.model.model.embed_tokens(torch.tensor(self.prompt)), DynamicCache()
        )
        vectors["prompt_hidden"], vectors["prompt_logits"] = hidden, logits[-1]
        kept = {"prompt": self.new_keys_values()}
        vectors["prompt_keys_values"] = np.stack([torch.stack(pair).numpy() for pair in kept["prompt"]])
        for chunk in range(CHUNKS):
            if chunk in EVICTED_BEFORE:
                del kept[EVICTED_BEFORE[chunk]]
            answers, kept[chunk] = self.run_chunk(chunk, self.past_of(kept))
            if chunk == 0:
                self.check_rebuilt_past_equals_the_model_s_own(answers)
            vectors |= {f"chunk{chunk}_{key}": value for key, value in answers.items()}
        return {key: np.ascontiguousarray(value) for key, value in vectors.items()}

    def run_chunk(self, chunk, cache):
        embedded = self.patch_embed(self.pixels[chunk])
        hidden, logits, cache = self.forward(embedded, cache)
        keys_values = self.new_keys_values()
        hiddens, actions = [hidden], [logits[:, self.first_action :]]
        tokens = [self.first_action + int(actions[0][-1].argmax())]
        for _ in range(ACTIONS - 1):
            embedded = self.model.model.embed_tokens(torch.tensor([tokens[-1]]))
            hidden, logits, cache = self.forward(embedded, cache)
            hiddens.append(hidden)
            actions.append(logits[:, self.first_action :])
            tokens.append(self.first_action + int(actions[-1][-1].argmax()))
        answers = {
            "hidden": np.concatenate(hiddens),
            "logits": np.concatenate(actions),
            "tokens": np.array(tokens),
        }
        return answers, keys_values

    def check_rebuilt_past_equals_the_model_s_own(self, answers):
        cache = DynamicCache()
        self.forward(self.model.model.embed_tokens(torch.tensor(self.prompt)), cache)
        own, _ = self.run_chunk(0, cache)
        assert np.abs(own["hidden"] - answers["hidden"]).max() < 2e-5
        assert (own["tokens"] == answers["tokens"]).all()

    def forward(self, embedded, cache):
        """Returns normed hidden states, logits, the cache; positions continue where the cache ends."""
        start = cache.get_seq_length()
        positions = torch.arange(start, start + len(embedded))[None]
        output = self.model.model(inputs_embeds=embedded[None], position_ids=positions, past_key_values=cache)
        hidden = output.last_hidden_state[0]
        return hidden.numpy(), self.model.lm_head(hidden).numpy(), output.past_key_values

    def past_of(self, kept):
        """The retained tokens' own raw keys, rotated at contiguous positions, and their values."""
        layers = []
        for layer in range(self.layers):
            keys = torch.cat([block[layer][0] for block in kept.values()], dim=1)
            values = torch.cat([block[layer][1] for block in kept.values()], dim=1)
            layers.append((self.rotate(keys)[None], values[None]))
        return DynamicCache(layers)

    def rotate(self, keys):
        """As complex numbers in float64: unlike both implementations that it is compared with."""
        half = self.head_dim // 2
        inverse = torch.tensor(self.theta, dtype=torch.float64) ** (
            -torch.arange(half, dtype=torch.float64) / half
        )
        angle = torch.arange(keys.shape[1], dtype=torch.float64)[:, None] * inverse
        turned = torch.complex(keys[..., :half].double(), keys[..., half:].double()) * torch.exp(1j * angle)
        return torch.cat([turned.real, turned.imag], dim=-1).float()

    def patch_embed(self, pixels):
        """By a convolution, as vision transformers have it."""
        picture = torch.tensor(pixels).permute(2, 0, 1)[None].double() / 127.5 - 1
        kernel = self.projection.double().reshape(-1, PATCH, PATCH, 3).permute(0, 3, 1, 2)
        return torch.nn.functional.conv2d(picture, kernel, stride=PATCH)[0].flatten(1).T.float()


if __name__ == "__main__":
    main()
