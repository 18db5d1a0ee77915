# SPDX-License-Identifier: Apache-2.0
"""The CUDA engine as a whole: against the NumPy engine, against itself, and its promises about memory."""

from __future__ import annotations

import dataclasses
import os

import numpy as np
import pytest

from vla_edge_ros.engines.numpy_decoder import Place
from vla_edge_ros.errors import EngineError
from vla_edge_ros.types import CacheView

pytestmark = pytest.mark.gpu

ACTION_TOKENS = 8


def never_stop(_):
    return False


def frame_of(rng, case):
    return rng.integers(0, 256, (case.config.frame.height, case.config.frame.width, 3), np.uint8)


def view_of(case, pages, prompt=0):
    """Full frames on ``pages``, the last one new; a prompt of ``prompt`` tokens on page 1 before them."""
    fills = [case.config.frame.tokens] * len(pages)
    if prompt:
        pages, fills = [1, *pages], [prompt, *fills]
    return CacheView(np.array(pages, np.int32), np.array(fills, np.int32), 0)


def cosine(a, b):
    return float(np.vdot(a, b) / np.linalg.norm(a) / np.linalg.norm(b))


def test_a_stream_of_frames_agrees_with_the_numpy_engine(engine, case, stored, load_oracle, rng):
    """Prompt, frames on pages in no order, one evicted from the middle; the same tokens fed to both."""
    from vla_edge_ros.bench.kernels import inspection

    oracle = load_oracle(stored)
    prompt = rng.integers(0, case.decoder.vocab_size, case.config.cache.page_slots // 2 + 1)
    for each in (engine, oracle):
        each.write_prompt(prompt, [1])
    kept = []
    for page in (5, 3, 9, 4):
        kept = [*kept, page] if len(kept) < 3 else [kept[0], kept[2], page]
        pixels, view = frame_of(rng, case), view_of(case, kept, len(prompt))
        for each in (engine, oracle):
            each.embed_frame(pixels)
            each.prefill(view)
        tokens = case.config.frame.tokens
        got = inspection.hidden(engine, "prefill")[:tokens]
        assert cosine(got, oracle.hidden) > 0.9995
        assert np.abs(got - oracle.hidden).max() < 0.05
        decoded = engine.decode(view, ACTION_TOKENS, never_stop)
        # The same tokens for both: a near tie may fall differently, and the texts would part from there.
        logits = oracle.logits()[-1]
        assert logits[decoded.tokens[0] - engine.sizes.head_first] > logits.max() - 0.05
        oracle.decoder.visible = view.slots_in_use
        for step, token in enumerate(decoded.tokens[:-1]):
            embedded = oracle._embedding[token - engine.sizes.head_first]
            oracle._forward(embedded[None], [Place(view.action_page, step, 1)])
        assert cosine(inspection.hidden(engine, "decode")[0], oracle.hidden[0]) > 0.9995
        assert cosine(inspection.logits(engine), oracle.logits()[0]) > 0.999
    oracle.close()


def test_runs_agree_to_the_bit(engine, case, rng):
    from vla_edge_ros.bench.kernels import inspection

    pixels = frame_of(rng, case)
    view = view_of(case, [3, 7, 5])
    engine.write_prompt(np.arange(5), [1])
    seen = set()
    for _ in range(100):
        embedding = engine.embed_frame(pixels).embedding
        engine.prefill(view)
        tokens = engine.decode(view, ACTION_TOKENS, never_stop).tokens
        seen.add((embedding.tobytes(), tokens, inspection.logits(engine).tobytes()))
    assert len(seen) == 1


def test_the_steady_state_allocates_nothing(engine, case, rng):
    """No allocator is asked; and where nobody else uses the device, its free memory stays the same."""
    import cupy

    pixels, view = frame_of(rng, case), view_of(case, [3, 7, 5])

    def chunk():
        engine.embed_frame(pixels)
        engine.prefill(view)
        engine.decode(view, ACTION_TOKENS, never_stop)

    chunk()
    pool, free = engine.buffers.taken_bytes, cupy.cuda.runtime.memGetInfo()[0]
    default_pool = cupy.get_default_memory_pool().total_bytes()

    def refuse(size):
        raise AssertionError(f"{size} bytes asked for in the steady state")

    with cupy.cuda.using_allocator(refuse):
        for _ in range(200):
            chunk()
    assert engine.buffers.taken_bytes == pool
    assert cupy.get_default_memory_pool().total_bytes() == default_pool
    if "PYTEST_XDIST_WORKER" not in os.environ:  # else other workers allocate on this device meanwhile
        assert cupy.cuda.runtime.memGetInfo()[0] == free


def test_decode_stops_between_steps_and_says_so(engine, case, rng):
    pixels, view = frame_of(rng, case), view_of(case, [3, 7])
    engine.embed_frame(pixels)
    engine.prefill(view)
    asked = []

    def stop_after_two(step_ms):
        asked.append(step_ms)
        return len(step_ms) == 2

    stopped = engine.decode(view, ACTION_TOKENS, stop_after_two)
    assert stopped.stopped and len(stopped.tokens) == 3 and len(stopped.step_ms) == 2
    assert [len(step_ms) for step_ms in asked] == [0, 1, 2]
    engine.embed_frame(pixels)
    engine.prefill(view)
    whole = engine.decode(view, ACTION_TOKENS, never_stop)
    assert whole.tokens[:3] == stopped.tokens and not whole.stopped


def test_a_token_never_sees_what_the_view_leaves_out(engine, case, rng):
    """NaN in every page outside the view and past every fill changes no bit."""
    from vla_edge_ros.bench.kernels import inspection

    engine.write_prompt(np.arange(3), [1])
    for page in (3, 7):
        engine.embed_frame(frame_of(rng, case))
        engine.prefill(view_of(case, [page], prompt=3))
    pixels, view = frame_of(rng, case), view_of(case, [3, 7, 5], prompt=3)

    def run():
        engine.embed_frame(pixels)
        engine.prefill(view)
        return engine.decode(view, ACTION_TOKENS, never_stop).tokens, inspection.logits(engine).tobytes()

    clean = run()
    for layer in range(case.decoder.num_hidden_layers):
        keys, values = inspection.read_kv(engine, layer)
        for page in range(case.config.cache.pages):
            fill = {1: 3, 3: case.config.frame.tokens, 7: case.config.frame.tokens}.get(page, 0)
            keys[page, :, fill:] = values[page, :, fill:] = np.nan
        inspection.write_kv(engine, layer, keys, values)
    assert run() == clean


def test_a_hidden_state_that_is_not_finite_is_an_error_and_the_next_chunk_works(engine, case, rng):
    view = view_of(case, [3, 7])
    pixels = frame_of(rng, case)
    name = "norms"
    norms = engine.buffers.array(name, np.float32, (case.decoder.hidden_size,))
    kept = norms.get()
    norms.fill(np.nan)
    engine.embed_frame(pixels)
    with pytest.raises(EngineError, match="finite"):
        engine.prefill(view)
    norms.set(kept)
    engine.embed_frame(pixels)
    engine.prefill(view)
    assert len(engine.decode(view, ACTION_TOKENS, never_stop).tokens) == ACTION_TOKENS


def test_calls_out_of_order_are_refused(engine, case, rng):
    view = view_of(case, [3, 7])
    engine.embed_frame(frame_of(rng, case))
    engine.prefill(view)
    with pytest.raises(EngineError, match="embed_frame before prefill"):
        engine.prefill(view)
    with pytest.raises(EngineError, match="view of the prefill"):
        engine.decode(view_of(case, [3, 7]), ACTION_TOKENS, never_stop)
    engine.decode(view, 1, never_stop)
    with pytest.raises(EngineError, match="view of the prefill"):
        engine.decode(view, ACTION_TOKENS, never_stop)
    with pytest.raises(EngineError, match="pixels"):
        engine.embed_frame(np.zeros((1, 2, 3), np.uint8))
    with pytest.raises(EngineError, match="token ids"):
        engine.write_prompt(np.array([case.decoder.vocab_size]), [1])


def test_memory_over_the_ceiling_fails_with_a_table(case, stored):
    from vla_edge_ros.engines.cuda.engine import CudaEngine

    config = dataclasses.replace(
        case.config, engine=dataclasses.replace(case.config.engine, vram_ceiling_mb=1)
    )
    with pytest.raises(EngineError, match=r"(?s)vram_ceiling_mb is 1.*kv_cache.*total"):
        CudaEngine(config, stored).load()


def test_memory_names_the_parts_and_the_peak_from_outside(engine):
    report = engine.memory()
    assert {"embedding", "gate_up", "kv_cache"} <= set(report.parts)
    assert report.peak_bytes >= report.total_bytes


def test_close_twice_and_load_again(case, stored, rng):
    from vla_edge_ros.engines.cuda.engine import CudaEngine

    engine = CudaEngine(case.config, stored)
    engine.close()
    engine.load()
    engine.close()
    engine.close()
    with pytest.raises(EngineError, match="load"):
        engine.embed_frame(frame_of(rng, case))
    engine.load()
    engine.embed_frame(frame_of(rng, case))
    engine.close()


@pytest.mark.parametrize(
    ("multiprocessors", "shared_kb"), [(8, 163), (16, 99), (1, 99)], ids=["8 of sm_87", "16 of sm_89", "1"]
)
def test_planned_for_a_small_chip_it_gives_the_same_tokens_with_and_without_drafts(
    case, weights, load_oracle, rng, monkeypatch, multiprocessors, shared_kb
):
    """A stand-in: fewer blocks, shorter rings and operands read through the L2, on the chip that is there."""
    from vla_edge_ros.bench.kernels import inspection
    from vla_edge_ros.engines.cuda import engine as module

    there = module.current_device()
    shared = shared_kb << 10
    small = dataclasses.replace(
        there, multiprocessors=multiprocessors, shared_bytes=shared, shared_bytes_sm=shared + 1024
    )
    monkeypatch.setattr(module, "current_device", lambda: small)
    engine, oracle = module.CudaEngine(case.config, weights), load_oracle(weights)
    engine.load()
    for pages in ([3], [3, 7], [7, 5]):
        pixels, view = frame_of(rng, case), view_of(case, pages)
        for each in (engine, oracle):
            each.embed_frame(pixels)
            each.prefill(view)
        got = inspection.hidden(engine, "prefill")[: case.config.frame.tokens]
        assert cosine(got, oracle.hidden) > 0.9995 and np.abs(got - oracle.hidden).max() < 0.05
        tokens = engine.decode(view, ACTION_TOKENS, never_stop).tokens
        for draft in (tokens, [*tokens[:3], *tokens[:5]]):
            engine.embed_frame(pixels)
            engine.prefill(view, draft)
            assert engine.decode(view, ACTION_TOKENS, never_stop).tokens == tokens
    engine.close()
    oracle.close()
