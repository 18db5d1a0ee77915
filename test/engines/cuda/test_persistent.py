# SPDX-License-Identifier: Apache-2.0
"""All layers of a decode step in one kernel: where it is planned; the bits of the graph of kernels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("cupy")

from vla_edge_ros.config import CacheConfig, EngineConfig, VlaConfig
from vla_edge_ros.engines.cuda.plan.device_sizes import Device
from vla_edge_ros.engines.cuda.plan.grid_barrier import BARRIERS
from vla_edge_ros.engines.cuda.plan.persistent import plan_persistent
from vla_edge_ros.engines.cuda.plan.planner import plan
from vla_edge_ros.engines.cuda.plan.sizes import PersistentDecode
from vla_edge_ros.errors import EngineError
from vla_edge_ros.model.decoder_config import QWEN2_5_CODER_1_5B
from vla_edge_ros.model.random_weights import RandomWeights
from vla_edge_ros.types import CacheView

H200 = Device("H200", 90, 132, 232448, 233472)
A100 = Device("A100", 80, 108, 166912, 167936)
ORIN = Device("Orin", 87, 16, 166912, 167936)
ADA = Device("4090", 89, 128, 101376, 102400)
ACTION_TOKENS = 8


def planned(device, config=None, decoder=QWEN2_5_CODER_1_5B):
    return plan_persistent(plan(decoder, config or VlaConfig(), device))


@pytest.mark.parametrize("weights", ["bf16", "int8", "int4"])
@pytest.mark.parametrize("draft", ["none", "last_action"])
@pytest.mark.parametrize("kv", ["bf16", "int8"])
@pytest.mark.parametrize("device", [H200, A100], ids=lambda device: device.name)
def test_a_step_fits_large_chips_in_every_format(device, weights, draft, kv):
    fit = planned(device, VlaConfig(engine=EngineConfig(weights=weights, draft=draft, kv=kv)))
    assert isinstance(fit, PersistentDecode), fit
    assert fit.blocks == device.multiprocessors and fit.deferred_stages < fit.stages
    assert fit.shared_bytes <= device.shared_bytes


@pytest.mark.parametrize(
    ("l2_megabytes", "weights", "units"),
    [(50, "bf16", 2), (40, "bf16", 1), (4, "bf16", 0), (0, "bf16", 0), (50, "int8", 0), (50, "int4", 0)],
)
def test_gate_up_is_asked_for_ahead_where_a_quarter_of_the_l2_holds_it(l2_megabytes, weights, units):
    device = replace(H200, l2_bytes=l2_megabytes << 20)  # a row tile a block is 6.2 MB
    fit = planned(device, VlaConfig(engine=EngineConfig(weights=weights)))
    assert fit.prefetch_units == units and fit.macros()["PREFETCH_UNITS"] == units


@pytest.mark.parametrize(
    ("device", "config", "decoder", "reason"),
    [
        (ORIN, VlaConfig(), QWEN2_5_CODER_1_5B, "64 shares of the attention on 16 multiprocessors"),
        (
            ADA,
            VlaConfig(engine=EngineConfig(draft="none")),
            QWEN2_5_CODER_1_5B,
            "101376 bytes of shared memory",
        ),
        (
            H200,
            VlaConfig(cache=CacheConfig(capacity_slots=8192)),
            QWEN2_5_CODER_1_5B,
            "256 pages of 6 query heads, more than one page a warp",
        ),
        (
            H200,
            VlaConfig(),
            replace(QWEN2_5_CODER_1_5B, hidden_size=8192, intermediate_size=65536),
            "registers a lane",
        ),
    ],
    ids=["few multiprocessors", "little shared memory", "more pages than warps", "a very wide model"],
)
def test_where_it_does_not_fit_the_reason_is_said(device, config, decoder, reason):
    found = planned(device, config, decoder)
    assert isinstance(found, str) and reason in found, found


def test_kernels_can_be_asked_for():
    config = VlaConfig(engine=EngineConfig(decode_step="kernels"))
    assert plan(QWEN2_5_CODER_1_5B, config, H200).persistent is None


def test_asking_for_what_does_not_fit_is_said_and_leaves_the_graph(caplog):
    config = VlaConfig(engine=EngineConfig(decode_step="persistent"))
    assert plan(QWEN2_5_CODER_1_5B, config, ORIN).persistent is None
    assert "a decode step is a graph of kernels: 64 shares" in caplog.text


def views_of(case, rng):
    """One page, a few, all but the action's; in no order."""
    pages = [page for page in rng.permutation(case.config.cache.pages) if page != 0]
    for count in sorted({1, 3, len(pages)}):
        chosen = np.array(pages[:count], np.int32)
        fills = rng.integers(1, case.config.cache.page_slots + 1, count).astype(np.int32)
        fills[-1] = case.config.frame.tokens
        yield CacheView(chosen, fills, 0)


def chunk_bits(engine, pixels, view):
    """Tokens, each step's logits, every bit of the cache."""
    from vla_edge_ros.bench.kernels import inspection

    logits = []

    def keep_logits(_):
        logits.append(inspection.logits(engine))
        return False

    engine.embed_frame(pixels)
    engine.prefill(view)
    tokens = engine.decode(view, ACTION_TOKENS, keep_logits).tokens
    return tokens, np.array([*logits, inspection.logits(engine)]), kv_bits(engine)


def kv_bits(engine):
    return engine.buffers.array("kv_cache", np.uint16, (engine.buffers.parts["kv_cache"] // 2,)).get()


def fill_cache(engine, case, rng):
    from vla_edge_ros.bench.kernels import inspection

    decoder, sizes = case.decoder, engine.sizes
    shape = (sizes.pages, decoder.num_key_value_heads, sizes.page_slots, decoder.head_dim)
    for layer in range(decoder.num_hidden_layers):
        inspection.write_kv(engine, layer, *(rng.standard_normal(shape, np.float32) for _ in range(2)))


def frame_of(rng, case):
    return rng.integers(0, 256, (case.config.frame.height, case.config.frame.width, 3), np.uint8)


@pytest.fixture
def both(engine):
    """The engine, left as it was found."""
    if "persistent" not in engine.steps.kinds:
        pytest.skip("a step of these sizes is not one kernel on this device")
    yield engine
    engine.steps.use("persistent", ahead=False)


@pytest.mark.gpu
def test_tokens_logits_and_cache_are_those_of_the_graph_of_kernels(both, case, rng):
    fill_cache(both, case, rng)
    for view in views_of(case, rng):
        pixels = frame_of(rng, case)
        both.steps.use("kernels")
        tokens, logits, bits = chunk_bits(both, pixels, view)
        both.steps.use("persistent", ahead=False)
        for _ in range(3):
            again = chunk_bits(both, pixels, view)
            assert again[0] == tokens
            np.testing.assert_array_equal(again[1], logits)
            np.testing.assert_array_equal(again[2], bits)


@pytest.mark.gpu
@pytest.mark.parametrize("wanted", ["kernels", "persistent", "auto"])
def test_the_kind_that_was_asked_for_is_used(small_case, wanted):
    """``auto`` measures both: a step of a few small layers is too short for one kernel with grid barriers."""
    from vla_edge_ros.engines.cuda.engine import CudaEngine

    config = replace(small_case.config, engine=replace(small_case.config.engine, decode_step=wanted))
    engine = CudaEngine(config, RandomWeights(small_case.decoder, 0))
    engine.load()
    kinds, used = set(engine.steps.kinds), engine.steps.kind
    engine.close()
    assert kinds == ({"kernels"} if wanted == "kernels" else {"kernels", "persistent"})
    assert used == (wanted if wanted != "auto" else "kernels")


@pytest.mark.gpu
def test_steps_that_are_queued_ahead_give_the_same_tokens(both, case, rng):
    for view in views_of(case, rng):
        pixels = frame_of(rng, case)
        tokens, _, bits = chunk_bits(both, pixels, view)
        both.steps.use("persistent")
        both.embed_frame(pixels)
        both.prefill(view)
        decoded = both.decode(view, ACTION_TOKENS, lambda _: False)
        assert decoded.tokens == tokens and len(decoded.step_ms) == ACTION_TOKENS - 1
        assert all(ms > 0 for ms in decoded.step_ms)
        np.testing.assert_array_equal(kv_bits(both), bits)
        both.steps.use("persistent", ahead=False)


@pytest.mark.gpu
def test_a_stop_ends_queued_steps_and_the_next_chunk_is_whole(both, case, rng):
    (view, *_), pixels = views_of(case, rng), frame_of(rng, case)
    tokens, *_ = chunk_bits(both, pixels, view)
    both.steps.use("persistent")
    for steps in (0, 1, 4, 6):
        both.embed_frame(pixels)
        both.prefill(view)
        stopped = both.decode(view, ACTION_TOKENS, lambda step_ms, steps=steps: len(step_ms) == steps)
        assert stopped.stopped and stopped.tokens == tokens[: steps + 1]
        both.embed_frame(pixels)
        both.prefill(view)
        assert both.decode(view, ACTION_TOKENS, lambda _: False).tokens == tokens


@pytest.mark.gpu
def test_an_error_while_steps_are_queued_leaves_an_engine_that_works(both, case, rng):
    (view, *_), pixels = views_of(case, rng), frame_of(rng, case)
    tokens, *_ = chunk_bits(both, pixels, view)
    both.steps.use("persistent")

    def fail_after_two(step_ms):
        if len(step_ms) == 2:
            raise KeyError("asked for")
        return False

    both.embed_frame(pixels)
    both.prefill(view)
    with pytest.raises(KeyError, match="asked for"):
        both.decode(view, ACTION_TOKENS, fail_after_two)
    both.embed_frame(pixels)
    both.prefill(view)
    assert both.decode(view, ACTION_TOKENS, lambda _: False).tokens == tokens


@pytest.mark.gpu
def test_a_block_that_never_comes_is_reported_and_not_waited_for(load_case, rng):
    """One block too few: every grid barrier times out. Then a whole launch, on the same counters."""
    from vla_edge_ros.engines.cuda.load.kernels import load_kernels, persistent_source
    from vla_edge_ros.engines.cuda.run.graphs import TimedGraph
    from vla_edge_ros.engines.cuda.run.passes import Pass

    engine = load_case("one layer of Qwen2.5-Coder-1.5B")
    if engine.sizes.persistent is None:
        pytest.skip("a step of these sizes is not one kernel on this device")
    view = CacheView(np.array([3], np.int32), np.array([engine.sizes.frame_tokens], np.int32), 0)
    pixels = rng.integers(0, 256, (64, 128, 3), np.uint8)
    tokens, *_ = chunk_bits(engine, pixels, view)
    file, names, macros = persistent_source(engine.sizes)
    hasty = load_kernels([(file, names, {**macros, "MOST_POLLS": 20000})], engine.sizes.device, True)
    kernels = {**engine.kernels, "decode": {**engine.kernels["decode"], **hasty}}
    fewer = replace(engine.sizes.persistent, blocks=engine.sizes.persistent.blocks - 1)
    outs = engine.host.addresses_out
    run = Pass("decode", replace(engine.sizes, persistent=fewer), kernels, engine.buffers, *outs)
    host = (engine.steps.cancelled.ctypes.data, engine.steps.stop_asked.ctypes.data)
    first = engine.buffers["next_token"]
    engine.steps.stop_asked[0] = 0
    TimedGraph(engine.stream, lambda: run.launch_persistent(engine.stream.ptr, first, *host)).run()
    with pytest.raises(EngineError, match=rf"grid barrier ({'|'.join(BARRIERS)}) after \d+ polls"):
        engine.steps._require_passed_barriers()
    engine.steps.use("persistent", ahead=False)
    assert chunk_bits(engine, pixels, view)[0] == tokens
