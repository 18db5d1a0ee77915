# SPDX-License-Identifier: Apache-2.0
"""Write ``streaming.npz`` beside this file: logits of whole episodes, from the network that training runs.

Run once, by hand, where PyTorch is installed::

    python test/golden/make_streaming.py

``test/engines/test_streaming_golden.py`` streams the same frames through the engines, which need no PyTorch,
under the kept sets that are stored here. Weights come from a seed (``model/random_weights.py``).
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from vla_edge_ros.config import FrameConfig
from vla_edge_ros.model.decoder_config import DecoderConfig
from vla_edge_ros.model.own_tensors import own_tensor
from vla_edge_ros.model.patch_embedding import patch_projection, text_embedding_norm
from vla_edge_ros.model.random_weights import RandomWeights
from vla_edge_ros.model.tensor_shapes import ACTION_QUERIES, PATCH_PROJECTION
from vla_edge_ros.sequence import Decoding
from vla_edge_ros.training.batches import PATCH, patches_of
from vla_edge_ros.training.export import parameters_of
from vla_edge_ros.training.kept_sets import kept_sets
from vla_edge_ros.training.network import Kept, PolicyNetwork

HERE = Path(__file__).parent
FRAMES, ROOM, SEED = 12, 4, 7
POLICIES = ("fifo", "bridge", "reservoir", "novelty")
SIZES = DecoderConfig(
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=1,
    head_dim=64,
    vocab_size=320,
    rope_theta=1e4,
    tie_word_embeddings=False,
)


def network_of(decoding: Decoding, frame: FrameConfig) -> PolicyNetwork:
    """With the weights that an engine makes of the seed."""
    weights = RandomWeights(SIZES, SEED)
    made = {
        PATCH_PROJECTION: patch_projection(weights, frame, SEED),
        ACTION_QUERIES: own_tensor(
            weights,
            ACTION_QUERIES,
            (1, SIZES.hidden_size),
            "",
            SEED,
            text_embedding_norm(weights) / SIZES.hidden_size**0.5,
        ),
    }
    network = PolicyNetwork(
        SIZES,
        patch_values=PATCH * PATCH * 3,
        frame_tokens=frame.tokens,
        action_tokens=2,
        bins=255,
        decoding=decoding,
    )
    for name, parameter in parameters_of(network).items():
        parameter.copy_(torch.from_numpy(np.array(made[name] if name in made else weights.tensor(name))))
    return network


def main() -> None:
    torch.set_grad_enabled(False)
    frame = FrameConfig()
    rng = np.random.default_rng(SEED)
    # Blocks of one colour, so that the file is small; a few frames repeat, so that policies differ.
    blocks = rng.integers(0, 256, (FRAMES, frame.height // 8, frame.width // 8, 3), np.uint8)
    blocks[[3, 7]] = blocks[[2, 6]]
    pixels = blocks.repeat(8, 1).repeat(8, 2)
    prompt = rng.integers(0, SIZES.vocab_size - 255, 5)
    arrays = {"blocks": blocks, "prompt": prompt, "seed": np.array(SEED)}
    arrays |= {f"size_{name}": np.array(value) for name, value in asdict(SIZES).items()}
    patches = patches_of(torch.from_numpy(pixels)[None]).float() / 127.5 - 1
    for policy in POLICIES:
        index, count = kept_sets(policy, pixels, np.arange(FRAMES), np.full(FRAMES, -1), ROOM)
        arrays |= {f"{policy}_index": index, f"{policy}_count": count}
        for decoding in Decoding:
            network, tokens = network_of(decoding, frame), np.zeros((FRAMES, 2), np.int64)
            for _ in range(2):  # the second token's logits follow from the first token
                outputs = network(
                    torch.from_numpy(prompt)[None],
                    patches,
                    torch.from_numpy(tokens)[None],
                    Kept(torch.from_numpy(index)[None], torch.from_numpy(count)[None]),
                )
                tokens = SIZES.vocab_size - 255 + outputs.logits[0].argmax(-1).numpy()
            arrays |= {
                f"{policy}_{decoding.value}_logits": outputs.logits[0].numpy(),
                f"{policy}_{decoding.value}_tokens": tokens,
            }
    np.savez_compressed(HERE / "streaming.npz", **arrays)
    print((HERE / "streaming.npz").stat().st_size // 1000, "kB")


if __name__ == "__main__":
    main()
