# SPDX-License-Identifier: Apache-2.0
"""Training computes what streaming inference computes: logits frame by frame, behind evictions too."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs PyTorch")

from vla_edge_ros.config import ActionConfig, CacheConfig, EngineConfig, ModelSource, VlaConfig  # noqa: E402
from vla_edge_ros.engines.numpy_engine import NumpyEngine  # noqa: E402
from vla_edge_ros.kv_cache.cache import KvCache  # noqa: E402
from vla_edge_ros.kv_cache.descriptor import describe  # noqa: E402
from vla_edge_ros.kv_cache.eviction import make_policy  # noqa: E402
from vla_edge_ros.model.weights import open_weights  # noqa: E402
from vla_edge_ros.sequence import Decoding  # noqa: E402
from vla_edge_ros.training.batches import patches_of  # noqa: E402
from vla_edge_ros.training.export import export  # noqa: E402
from vla_edge_ros.training.instructions import token_ids  # noqa: E402
from vla_edge_ros.training.network import Kept  # noqa: E402
from vla_edge_ros.training.policy import new_network  # noqa: E402
from vla_edge_ros.training.rollout import make_rollout  # noqa: E402

FRAMES = 14


def network(decoding: Decoding, seed: int):
    """Random weights, large enough that logits differ, rounded to bfloat16 as an export rounds them."""
    torch.manual_seed(seed)
    made = new_network(decoding)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() == 2:
                parameter.mul_(2.5)
            parameter.copy_(parameter.to(torch.bfloat16))
    return made


@pytest.mark.parametrize("decoding", list(Decoding))
@pytest.mark.parametrize("policy_name", ["fifo", "bridge", "reservoir", "semantic"])
def test_logits_of_a_whole_episode_are_the_engines(decoding, policy_name, tmp_path):
    trained = network(decoding, seed=3)
    export(trained, tmp_path)
    config = VlaConfig(
        model=ModelSource(path=str(tmp_path)),
        engine=EngineConfig(name="numpy"),
        cache=CacheConfig(capacity_slots=320, eviction=policy_name, protect_latest=2),
        action=ActionConfig(
            names=("vx", "vy"),
            low=(-1, -1),
            high=(1, 1),
            kinds=("rate", "rate"),
            bins=255,
            decoding=decoding.value,
        ),
    )
    engine = NumpyEngine(config, open_weights(config.model))
    engine.load()
    policy = make_policy(config.cache)
    cache = KvCache.for_model(config, policy, 128)
    assert cache.room < FRAMES - 4, "some frames must be evicted"
    rollout = make_rollout("recall", np.random.default_rng(1), FRAMES, 30)
    prompt = np.array(token_ids(rollout.instruction))
    engine.write_prompt(prompt, cache.set_prompt(len(prompt)))
    index = np.zeros((1, FRAMES, cache.room), np.int64)
    count, logits, tokens = np.zeros((1, FRAMES), np.int64), [], []
    for frame, pixels in enumerate(rollout.pixels):
        kept = cache.memory.sequences - 1
        index[0, frame, : len(kept)], count[0, frame] = kept, len(kept)
        vision = engine.embed_frame(pixels)
        with cache.begin(frame + 1, (frame + 1) * 33_333_333) as chunk:
            engine.prefill(chunk.view)
            rows = [engine.logits()[-2:]] if decoding is Decoding.PARALLEL else [engine.logits()[-1:]]
            tokens.append(engine.decode(chunk.view, 2, lambda step_ms: False).tokens)
            rows += [] if decoding is Decoding.PARALLEL else [engine.logits()[-1:]]
            chunk.commit(describe(policy.descriptor, pixels, vision.embedding))
        logits.append(np.concatenate(rows))
    engine.close()
    with torch.no_grad():
        outputs = trained(
            torch.from_numpy(prompt)[None],
            patches_of(torch.from_numpy(rollout.pixels)[None]).float() / 127.5 - 1,
            torch.tensor(tokens)[None],
            Kept(torch.from_numpy(index), torch.from_numpy(count)),
        )
    ours, theirs = outputs.logits[0].numpy(), np.stack(logits)
    assert theirs.std() > 0.1
    assert np.abs(ours - theirs).max() <= 1e-5 * max(1.0, np.abs(theirs).max())
