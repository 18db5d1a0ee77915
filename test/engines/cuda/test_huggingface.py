# SPDX-License-Identifier: Apache-2.0
"""The CUDA engine against Hugging Face transformers in float32 on the same weights, in every format.

One chunk: the vision tokens' prefill and seven decode steps, behind the same cached keys and values. The
yardstick beside the fixed limits is transformers' own error when it runs in bfloat16 on the same input.
"""

from __future__ import annotations

import numpy as np
import pytest

from vla_edge_ros.config import CacheConfig, EngineConfig, ModelSource, VlaConfig
from vla_edge_ros.model.bfloat16 import round_to_bfloat16
from vla_edge_ros.model.decoder_config import QWEN2_5_CODER_1_5B
from vla_edge_ros.model.random_weights import RandomWeights
from vla_edge_ros.types import CacheView

pytestmark = pytest.mark.gpu

LEAST_COSINE = 0.999
MOST_DIFFERENCE = 5e-2
SEED = 3


@pytest.fixture(scope="module")
def torch():
    pytest.importorskip("transformers", reason="the reference is Hugging Face transformers")
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def reference(torch):
    from vla_edge_ros.bench.kernels import huggingface_reference

    return huggingface_reference


@pytest.fixture(scope="module", params=["bf16", "int8", "int4"])
def full(torch, reference, request):
    """The full-size engine, and the reference in float32 and bfloat16 on what the format leaves."""
    from vla_edge_ros.engines.cuda.engine import CudaEngine

    weights = RandomWeights(QWEN2_5_CODER_1_5B, SEED)
    engine = CudaEngine(VlaConfig(engine=EngineConfig(weights=request.param)), weights)
    engine.load()
    model, half = (reference.random_model(engine, weights) for _ in range(2))
    for each in (model, half):
        reference.quantise_model(each, request.param)
    yield engine, model, reference.in_bfloat16(half, model)
    engine.close()


def frame(rng, engine):
    width, height, _ = engine.sizes.frame
    return rng.integers(0, 256, (height, width, 3), np.uint8)


def chunk_rows(engine, view, pixels):
    """Hidden rows and head logits of one chunk: the prefill's rows, then each decode step's."""
    from vla_edge_ros.bench.kernels import inspection

    tokens_in = (engine.sizes.prefill.tokens, engine.sizes.decoder.hidden_size)
    engine.embed_frame(pixels)
    engine.prefill(view)
    vision = engine.buffers.array("tokens_in", np.float32, tokens_in).get()[: engine.sizes.frame_tokens]
    engine.steps.use(engine.steps.kind, ahead=False)  # each step's results are read before the next one
    rows = [inspection.hidden(engine, "prefill")[: engine.sizes.frame_tokens]]
    logits = [inspection.logits(engine)]

    def keep(step_ms):
        if step_ms:
            rows.append(inspection.hidden(engine, "decode"))
            logits.append(inspection.logits(engine))
        return False

    decoded = engine.decode(view, 8, keep)
    keep((0.0,))
    return vision, np.concatenate(rows), np.stack(logits), decoded.tokens


def reference_rows(torch, reference, engine, model, view, vision, tokens):
    """The same rows from transformers, fed the engine's tokens."""
    dtype = model.dtype
    cache = reference.cached_pages(engine, view.pages[:-1], view.fills[:-1], dtype)
    rows = [reference.forward(model, torch.from_numpy(vision).to("cuda", dtype), cache)]
    for token in tokens[:-1]:
        embedded = model.model.embed_tokens.weight[token][None]
        rows.append(reference.forward(model, embedded, cache))
    rows = torch.cat(rows).float()
    head = model.lm_head.weight[engine.sizes.head_first :].float()
    last = rows[len(vision) - 1 :]
    return rows.cpu().numpy(), (last @ head.T).cpu().numpy()


def cosines(a, b):
    return (a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)


def check_chunk(torch, reference, engine, model, half, view, pixels, label):
    vision, rows, logits, tokens = chunk_rows(engine, view, pixels)
    expected, expected_logits = reference_rows(torch, reference, engine, model, view, vision, tokens)
    in_half, half_logits = reference_rows(torch, reference, engine, half, view, vision, tokens)
    least = cosines(rows, expected).min()
    difference, half_difference = np.abs(rows - expected).max(), np.abs(in_half - expected).max()
    error, half_error = np.linalg.norm(rows - expected), np.linalg.norm(in_half - expected)
    logit_error, half_logit_error = (np.abs(x - expected_logits).max() for x in (logits, half_logits))
    best = expected_logits.max(-1)
    chosen = np.take_along_axis(expected_logits, np.array(tokens)[:, None] - engine.sizes.head_first, 1)[:, 0]
    half_least = cosines(in_half, expected).min()
    print(
        f"{label}: slots {view.slots_in_use}, least cosine {least:.6f} (bf16 {half_least:.6f}), "
        f"max difference {difference:.4f} (bf16 {half_difference:.4f}), "
        f"norm of error {error:.3f} (bf16 {half_error:.3f}), "
        f"logits {logit_error:.4f} (bf16 {half_logit_error:.4f}), "
        f"most given up for the chosen token {(best - chosen).max():.5f}"
    )
    assert np.isfinite(rows).all()
    assert least >= LEAST_COSINE
    assert difference <= MOST_DIFFERENCE
    assert error <= half_error and difference <= half_difference
    # A near tie may fall either way: the chosen token is the reference's best within twice the logits' error.
    assert (best - chosen <= 2 * logit_error).all()


def test_full_cache_of_gapped_pages(torch, reference, full):
    """Every page in use, in no order, fills from 1 to 32, random keys and values, NaN past the fills."""
    from vla_edge_ros.bench.kernels import inspection

    engine, model, half = full
    rng = np.random.default_rng(SEED)
    sizes = engine.sizes
    order = rng.permutation(sizes.pages).astype(np.int32)
    fills = np.where(rng.random(sizes.pages - 1) < 0.8, 32, rng.integers(1, 33, sizes.pages - 1)).astype(
        np.int32
    )
    fills[-1] = 32
    view = CacheView(order[:-1], fills, int(order[-1]))
    shape = (sizes.pages, sizes.decoder.num_key_value_heads, sizes.page_slots, sizes.decoder.head_dim)
    for layer in range(sizes.decoder.num_hidden_layers):
        keys, values = (round_to_bfloat16(rng.standard_normal(shape, np.float32)) for _ in range(2))
        for page, fill in zip(order[:-2], fills, strict=False):
            keys[page, :, fill:] = values[page, :, fill:] = np.nan
        keys[order[-2:]] = values[order[-2:]] = np.nan
        inspection.write_kv(engine, layer, keys, values)
    check_chunk(torch, reference, engine, model, half, view, frame(rng, engine), "gapped, full")


def test_after_a_thousand_evictions(torch, reference, full):
    """A prompt and frames of the engine's own making; each new frame takes the page of an evicted one."""
    engine, model, half = full
    rng = np.random.default_rng(SEED + 1)
    engine.write_prompt(rng.integers(0, 1000, 23), [2])
    prompt = np.array([2], np.int32)
    free = [page for page in range(engine.sizes.pages) if page not in (0, 2)]
    kept: list[int] = []
    for _ in range(1000 + len(free)):
        if not free:
            free.append(kept.pop(int(rng.integers(0, len(kept) - 1))))
        kept.append(free.pop(int(rng.integers(0, len(free)))))
        pages = np.concatenate([prompt, np.array(kept, np.int32)])
        fills = np.full(len(pages), 32, np.int32)
        fills[0] = 23
        view = CacheView(pages, fills, 0)
        pixels = frame(rng, engine)
        engine.embed_frame(pixels)
        engine.prefill(view)
    check_chunk(torch, reference, engine, model, half, view, pixels, "after 1,000 evictions")


def test_first_frame_behind_a_prompt(torch, reference, full):
    engine, model, half = full
    rng = np.random.default_rng(SEED + 2)
    engine.write_prompt(rng.integers(0, 1000, 45), [7, 3])
    view = CacheView(np.array([7, 3, 9], np.int32), np.array([32, 13, 32], np.int32), 0)
    check_chunk(torch, reference, engine, model, half, view, frame(rng, engine), "first frame")


# What save_pretrained may have written: family, sizes, stored type, largest shard.
SAVED = {
    "qwen2 tied": ("Qwen2", (256, 700, 4, 2, 64), True, "bfloat16", "5GB"),
    "qwen2 untied in shards": ("Qwen2", (448, 1000, 7, 1, 64), False, "float32", "1MB"),
    "llama with heads of 128": ("Llama", (512, 1376, 4, 4, 128), False, "float16", "5GB"),
    "llama tied": ("Llama", (320, 640, 5, 5, 64), True, "bfloat16", "5GB"),
}


@pytest.mark.parametrize("name", SAVED)
def test_small_models_from_save_pretrained_folders(torch, reference, name, tmp_path):
    import transformers

    from vla_edge_ros.engines.cuda.engine import CudaEngine

    family, (hidden, inner, heads, kv_heads, head_dim), tied, stored, shard = SAVED[name]
    torch.manual_seed(SEED)
    config = getattr(transformers, f"{family}Config")(
        hidden_size=hidden,
        intermediate_size=inner,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        num_hidden_layers=2,
        vocab_size=512,
        tie_word_embeddings=tied,
    )
    made = getattr(transformers, f"{family}ForCausalLM")(config).to(getattr(torch, stored))
    made.save_pretrained(tmp_path, max_shard_size=shard)
    model = type(made)(config).cuda().eval().requires_grad_(False)
    model.load_state_dict({name: value.bfloat16().float() for name, value in made.state_dict().items()})
    half = reference.in_bfloat16(made.cuda().eval().requires_grad_(False), model)
    engine = CudaEngine(
        VlaConfig(model=ModelSource(path=str(tmp_path)), cache=CacheConfig(capacity_slots=1024))
    )
    engine.load()
    rng = np.random.default_rng(SEED)
    engine.write_prompt(rng.integers(0, 512, 40), [4, 1])
    view = CacheView(np.array([4, 1, 6], np.int32), np.array([32, 8, 32], np.int32), 0)
    check_chunk(torch, reference, engine, model, half, view, frame(rng, engine), name)
    engine.close()
