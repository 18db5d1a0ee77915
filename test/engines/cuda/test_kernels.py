# SPDX-License-Identifier: Apache-2.0
"""Each kernel against its NumPy twin: fresh random inputs, odd sizes, NaN wherever nothing may be read.

The twin gets what the kernel's tensor cores get, in a prefill operands rounded to float16, and computes in
float64; what is left is the order of float32 sums, about 1e-6, the 16 bits of a decode step's operands, about
4e-6, and now and then an operand rounded to the other side.
"""

from __future__ import annotations

import numpy as np
import pytest

from vla_edge_ros.engines import numpy_ops as ops
from vla_edge_ros.model.bfloat16 import round_to_bfloat16
from vla_edge_ros.model.kept_kv import kept_kv, steps_of
from vla_edge_ros.model.patch_embedding import patch_projection
from vla_edge_ros.model.tensor_shapes import EMBEDDING, FINAL_NORM, head_name, layer_prefix

pytestmark = pytest.mark.gpu

FLOAT32_ERROR = 5e-5  # includes operands that round to the other side
FLOAT16_ERROR = 6e-4  # half a unit in the last of 11 bits is 2.4e-4
BFLOAT16_ERROR = 4e-3  # half a unit in the last of 8 bits is 2e-3
INT8_ERROR = 1.5e-2  # of many normal keys or values it is 7e-3
ACTIVATED_SCALE = {"decode": 1, "prefill": 1 / 64}


@pytest.fixture(params=["decode", "prefill"])
def pass_name(request):
    return request.param


@pytest.fixture
def inspect():
    from vla_edge_ros.bench.kernels import inspection

    return inspection


@pytest.fixture
def run(engine, pass_name):
    """The pass under test, its stream, and how many tokens its state has live."""
    return engine.passes[pass_name]


def relative_error(got, expected):
    assert np.isfinite(got).all()
    return np.linalg.norm(got - expected) / np.linalg.norm(expected)


def normal(rng, *shape):
    return rng.standard_normal(shape, np.float32)


def set_buffer(engine, name, values):
    engine.buffers.array(name, values.dtype, values.shape).set(values)
    synchronize()


def set_state(engine, pass_name, pages, fills, tokens, first_slot):
    from vla_edge_ros.engines.cuda.plan.chunk_state import LiveRows, state_dtype, write_state

    state = np.zeros(1, state_dtype(engine.sizes.pages))
    kind = "action" if pass_name == "decode" else "frame"
    write_state(state, pages, fills, engine.sizes.page_slots, **{kind: LiveRows(tokens, first_slot)})
    set_buffer(engine, f"{pass_name}_state", state.view(np.int32))


def live_tokens(engine, pass_name):
    return 1 if pass_name == "decode" else engine.sizes.frame_tokens


def set_residual(engine, run, pass_name, rng, stream, partials):
    """Random residual and partial sums; returns the Residual argument and the sum, in the kernel's order."""
    variant = engine.sizes.passes[pass_name]
    shape = (variant.tokens, engine.sizes.decoder.hidden_size)
    split_k = (variant.output if partials == "output_partials" else variant.down).split_k
    total, split = normal(rng, *shape), normal(rng, split_k, *shape)
    set_buffer(engine, f"{pass_name}_{stream}", total)
    set_buffer(engine, f"{pass_name}_{partials}", split)
    for part in split:
        total = total + part
    argument = run.residual(engine.buffers[f"{pass_name}_{stream}"], partials, split_k)
    return argument, total


def normed(x, weight, epsilon):
    """What a prefill multiplies; a decode step has 16 bits, which is as good as all here."""
    exact = ops.rms_norm(x, weight, epsilon)
    return (exact if len(x) == 1 else exact.astype(np.float16)).astype(np.float64)


def as_kept(case, values):
    """What the engine keeps of keys or values."""
    return kept_kv(values) if case.config.engine.kv == "int8" else round_to_bfloat16(values)


def assert_kept(case, got, expected):
    """Keys or values that the engine wrote, against float64 ones: in int8 none is off by more than a step."""
    int8 = case.config.engine.kv == "int8"
    assert relative_error(got, expected) < (INT8_ERROR if int8 else BFLOAT16_ERROR)
    if int8:  # what the sums' own rounding adds is a few hundredths of a step
        exact = expected.astype(np.float32)
        assert (np.abs(got - exact) <= 1.05 * steps_of(exact)).all()
        np.testing.assert_array_equal(kept_kv(got), got)


def synchronize():
    import cupy

    cupy.cuda.runtime.deviceSynchronize()


def test_qkv_projection_writes_queries_and_the_page(
    engine, case, weights, run, pass_name, inspect, rng, gapped_view
):
    decoder, tokens = case.decoder, live_tokens(engine, pass_name)
    argument, x = set_residual(engine, run, pass_name, rng, "residual_a", "down_partials")
    first_slot = int(rng.integers(0, engine.sizes.page_slots - tokens + 1))
    page = int(gapped_view.frame_pages[0])
    set_state(engine, pass_name, [page], [first_slot + tokens], tokens, first_slot)
    poison = np.full(
        (engine.sizes.pages, decoder.num_key_value_heads, engine.sizes.page_slots, decoder.head_dim), np.nan
    )
    inspect.write_kv(engine, 0, poison, poison)

    run.launch_qkv(engine.stream.ptr, 0, argument, engine.buffers[f"{pass_name}_residual_b"])
    synchronize()

    at = layer_prefix(0)
    operand = normed(x, weights.tensor(at + "input_layernorm.weight"), decoder.rms_norm_eps)[:tokens]

    def project(name):
        bias = weights.tensor(f"{at}self_attn.{name}_proj.bias") if decoder.qkv_bias else None
        product = ops.linear(operand, weights.tensor(f"{at}self_attn.{name}_proj.weight"), bias)
        return product.reshape(tokens, -1, decoder.head_dim)

    query_shape = (engine.sizes.passes[pass_name].tokens, decoder.num_attention_heads, decoder.head_dim)
    queries = engine.buffers.array(f"{pass_name}_queries", np.float32, query_shape).get()[:tokens]
    assert relative_error(queries, project("q")) < FLOAT32_ERROR
    slots = slice(first_slot, first_slot + tokens)
    cosine, sine = ops.rope_angles(engine.sizes.page_slots, decoder.head_dim, decoder.rope_theta)
    rotated = ops.rotate(project("k"), cosine[slots, None], sine[slots, None])
    keys, values = inspect.read_kv(engine, 0)
    assert_kept(case, keys[page, :, slots].transpose(1, 0, 2), rotated)
    assert_kept(case, values[page, :, slots].transpose(1, 0, 2), project("v"))
    untouched = np.ones(keys.shape[:3], bool)
    untouched[page, :, slots] = False
    assert np.isnan(keys[untouched]).all() and np.isnan(values[untouched]).all()
    kept = engine.buffers.array(f"{pass_name}_residual_b", np.float32, x.shape).get()
    np.testing.assert_array_equal(kept[:tokens], x[:tokens])


def attention_case(engine, case, pass_name, rng, view):
    """Pages, fills and random K/V with NaN in every slot that is not valid; the expected output."""
    decoder, sizes = case.decoder, engine.sizes
    tokens = live_tokens(engine, pass_name)
    pages, fills, first_slot = list(view.pages), list(view.fills), 0
    if pass_name == "decode":
        first_slot = int(rng.integers(0, sizes.page_slots))
        pages, fills = [*pages, view.action_page], [*fills, first_slot + 1]
    shape = (sizes.pages, decoder.num_key_value_heads, sizes.page_slots, decoder.head_dim)
    keys = np.full(shape, np.nan, np.float32)
    values = np.full(shape, np.nan, np.float32)
    for page, fill in zip(pages, fills, strict=True):
        keys[page, :, :fill] = as_kept(case, 2 * normal(rng, shape[1], fill, shape[3]))
        values[page, :, :fill] = as_kept(case, normal(rng, shape[1], fill, shape[3]))
    query = normal(rng, tokens, decoder.num_attention_heads, decoder.head_dim)

    cosine, sine = ops.rope_angles(sizes.ranks, decoder.head_dim, decoder.rope_theta)
    base = np.cumsum(fills) - fills
    visible_keys, visible_values = (
        np.concatenate([kv[page, :, :fill] for page, fill in zip(pages, fills, strict=True)], axis=1)
        for kv in (keys, values)
    )
    bases = np.repeat(base, fills)
    ranks = base[-1] + first_slot + np.arange(tokens)
    expected = ops.attention(
        ops.rotate(query, cosine[ranks, None], sine[ranks, None]).astype(np.float64),
        ops.rotate(visible_keys, cosine[bases], sine[bases]).astype(np.float64),
        visible_values.astype(np.float64),
    )
    return (pages, fills, tokens, first_slot), query, keys, values, expected


def test_attention_and_output_projection_over_gapped_pages(
    engine, case, weights, run, pass_name, inspect, rng, gapped_view
):
    variant = engine.sizes.passes[pass_name]
    state, query, keys, values, attended = attention_case(engine, case, pass_name, rng, gapped_view)
    set_state(engine, pass_name, *state)
    inspect.write_kv(engine, 0, keys, values)
    padded = np.zeros((variant.tokens, *query.shape[1:]), np.float32)
    padded[: len(query)] = query
    set_buffer(engine, f"{pass_name}_queries", padded)

    run.launch_attention(engine.stream.ptr, 0)
    run.launch_output(engine.stream.ptr, 0)
    synchronize()

    tokens = len(query)
    if pass_name == "prefill":
        got = inspect.read_operand(engine, "prefill_operand", variant.rows, case.decoder.q_size)[:tokens]
        assert relative_error(got, attended) < 2 * BFLOAT16_ERROR  # of the queries
    shape = (variant.output.split_k, variant.tokens, case.decoder.hidden_size)
    output = engine.buffers.array(f"{pass_name}_output_partials", np.float32, shape).get().sum(0)[:tokens]
    expected = ops.linear(attended, weights.tensor(layer_prefix(0) + "self_attn.o_proj.weight"))
    assert relative_error(output, expected) < 2 * BFLOAT16_ERROR


def test_gate_up_swiglu(engine, case, weights, run, pass_name, inspect, rng):
    decoder, tokens = case.decoder, live_tokens(engine, pass_name)
    argument, x = set_residual(engine, run, pass_name, rng, "residual_b", "output_partials")

    run.launch_gate_up(engine.stream.ptr, 0, argument, engine.buffers[f"{pass_name}_residual_a"])
    synchronize()

    at = layer_prefix(0)
    operand = normed(x, weights.tensor(at + "post_attention_layernorm.weight"), decoder.rms_norm_eps)
    expected = ops.swiglu(
        *(ops.linear(operand, weights.tensor(f"{at}mlp.{name}_proj.weight")) for name in ("gate", "up"))
    )
    variant = engine.sizes.passes[pass_name]
    got = inspect.read_operand(engine, f"{pass_name}_activated", variant.rows, engine.sizes.intermediate)
    inner = decoder.intermediate_size
    assert (
        relative_error(got[:tokens, :inner], ACTIVATED_SCALE[pass_name] * expected[:tokens]) < FLOAT16_ERROR
    )
    assert (got[:, inner:] == 0).all()


def test_down_projection(engine, case, weights, run, pass_name, inspect, rng):
    variant, tokens = engine.sizes.passes[pass_name], live_tokens(engine, pass_name)
    activated = normal(rng, variant.tokens, engine.sizes.intermediate)
    if pass_name == "prefill":
        activated = activated.astype(np.float16)
    inspect.write_operand(engine, f"{pass_name}_activated", variant.rows, activated)

    run.launch_down(engine.stream.ptr, 0)
    synchronize()

    shape = (variant.down.split_k, variant.tokens, case.decoder.hidden_size)
    got = engine.buffers.array(f"{pass_name}_down_partials", np.float32, shape).get().sum(0)[:tokens]
    inner = case.decoder.intermediate_size
    weight = weights.tensor(layer_prefix(0) + "mlp.down_proj.weight")
    expected = ops.linear(activated[:tokens, :inner].astype(np.float64), weight) / ACTIVATED_SCALE[pass_name]
    assert relative_error(got, expected) < FLOAT32_ERROR


def test_head_takes_the_last_live_token_and_embeds_the_best(
    engine, case, weights, run, pass_name, inspect, rng
):
    decoder, sizes = case.decoder, engine.sizes
    tokens = live_tokens(engine, pass_name)
    set_state(engine, pass_name, [0], [tokens], tokens, 0)
    argument, x = set_residual(engine, run, pass_name, rng, "residual_a", "down_partials")

    run.launch_head(engine.stream.ptr, argument)
    synchronize()

    operand = normed(x[tokens - 1 : tokens], weights.tensor(FINAL_NORM), decoder.rms_norm_eps)[0]
    rows = range(sizes.head_first, decoder.vocab_size)
    expected = weights.rows(head_name(decoder), rows) @ operand
    got = inspect.logits(engine)
    assert relative_error(got, expected) < FLOAT32_ERROR
    token = int(engine.host.tokens_out[1 if pass_name == "decode" else 0])
    assert token == sizes.head_first + int(np.argmax(got))
    embedded = engine.buffers.array("next_token", np.float32, (decoder.hidden_size,)).get()
    np.testing.assert_array_equal(embedded, weights.rows(EMBEDDING, [token])[0])
    assert engine.host.status[0] == 0


def test_patch_embedding_and_pooled_embedding(engine, case, stored, rng):
    frame, sizes = case.config.frame, engine.sizes
    pixels = rng.integers(0, 256, (frame.height, frame.width, 3), np.uint8)

    vision = engine.embed_frame(pixels)

    expected = ops.patch_embed(pixels, patch_projection(stored, frame, case.config.model.seed))
    shape = (sizes.prefill.tokens, case.decoder.hidden_size)
    got = engine.buffers.array("tokens_in", np.float32, shape).get()[: frame.tokens]
    assert relative_error(got, expected) < 1e-5
    np.testing.assert_allclose(vision.embedding, got.mean(axis=0), atol=1e-6)
    assert vision.vision_ms > 0


def test_packed_weights_are_numpys_bit_for_bit(engine, case, weights):
    """Made or quantised on the device, read back through the packing."""
    from vla_edge_ros.bench.kernels.weight_inspection import read_weights
    from vla_edge_ros.engines.cuda.load.packed_weights import targets

    for target in targets(engine.sizes):
        if target.matrix:
            rows, values = read_weights(engine, target)
            expected = weights.rows(target.tensor, rows)
            np.testing.assert_array_equal(values, expected, err_msg=target.tensor)
