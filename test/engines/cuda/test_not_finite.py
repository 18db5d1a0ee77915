# SPDX-License-Identifier: Apache-2.0
"""What is not finite is an error on the device too: logits wherever a token is chosen, weights as they load.

And a GPU that is lost says so, in a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("cupy")

from vla_edge_ros.config import FrameConfig
from vla_edge_ros.engines.cuda.load import packed_weights
from vla_edge_ros.engines.cuda.load.packed_weights import Target, WeightLoader, head_is_embedding, targets
from vla_edge_ros.engines.cuda.plan.weight_format import BF16, INT8, TILE_BYTES, TILE_ROWS
from vla_edge_ros.errors import EngineError, WeightsError
from vla_edge_ros.model.bfloat16 import bfloat16_to_float32, float32_to_bfloat16
from vla_edge_ros.model.patch_embedding import PATCH_PROJECTION
from vla_edge_ros.model.random_weights import RandomWeights
from vla_edge_ros.model.tensor_shapes import EMBEDDING, FINAL_NORM, head_name, layer_prefix
from vla_edge_ros.types import CacheView

ACTION_TOKENS = 8
ROOT = Path(__file__).resolve().parents[3]
TYPES = ("bfloat16", "float16", "float32")


# Weights as they load, without a device: the kernels' mark is set by hand


class InMemory:
    """Tensors of random weights in another stored type; ``tensors`` may be changed."""

    def __init__(self, decoder, type_name="bfloat16", seed=7):
        self.config, self.type_name = decoder, type_name
        self._random, self.tensors = RandomWeights(decoder, seed), {}

    def has(self, name):
        return name in self.tensors or self._random.has(name)

    def raw(self, name):
        if name not in self.tensors:
            self.tensors[name] = self.as_stored(self._random.tensor(name))
        return self.type_name, self.tensors[name]

    def as_stored(self, values):
        return float32_to_bfloat16(values) if self.type_name == "bfloat16" else values.astype(self.type_name)

    def tensor(self, name):
        _, elements = self.raw(name)
        return bfloat16_to_float32(elements) if self.type_name == "bfloat16" else elements.astype(np.float32)

    def rows(self, name, indices):
        return self.tensor(name)[np.asarray(indices)]

    def make_not_finite(self, name, at, value):
        elements = self.raw(name)[1].copy()
        if self.type_name == "bfloat16":
            elements[at] = {np.inf: 0x7F80, -np.inf: 0xFF80}.get(value, 0x7FC0)
        else:
            elements[at] = value
        self.tensors[name] = elements


class Marks:
    """A packing kernel that marks what it is told to."""

    def __init__(self, mark, calls):
        self.mark, self.calls = mark, calls

    def launch(self, stream, grid, threads, shared_bytes, *values):
        self.calls.append(values)
        self.mark()


@pytest.mark.parametrize("matrix", [(48, 64), None], ids=["matrix", "vector"])
@pytest.mark.parametrize("piece", [0, 2])
def test_a_mark_is_looked_for_in_the_piece_that_was_read(small_case, monkeypatch, matrix, piece):
    """16 rows a piece of 33 or so: the place counts from the tensor's beginning."""
    row_bytes = 64 * 4 if matrix else 4
    monkeypatch.setattr(packed_weights, "PIECE_BYTES", 17 * row_bytes)
    monkeypatch.setattr(packed_weights, "pinned_array", np.zeros)
    runtime = SimpleNamespace(
        memcpyAsync=lambda *_: None, streamSynchronize=lambda stream: None, memcpyHostToDevice=1
    )
    monkeypatch.setattr(packed_weights.cupy.cuda, "runtime", runtime)

    class Memory(dict):
        def take(self, name, size):
            return SimpleNamespace(ptr=1)

    calls = []
    kernels = {name: Marks(lambda: None, calls) for name in ("pack_tiles", "to_float")}
    loader = WeightLoader(Memory(buffer=1 << 20), kernels, InMemory(small_case.decoder), 1)

    def mark():
        if len(calls) == piece + 1:
            loader._not_finite[0] = 1

    for kernel in kernels.values():
        kernel.mark = mark
    elements = np.ones((48, 64) if matrix else 48, np.float32)
    at = (16 * piece + 3, 5) if matrix else (16 * piece + 3,)
    elements[at] = np.nan
    with pytest.raises(WeightsError, match=rf"^t: .* got nan at \[{', '.join(map(str, at))}\]"):
        loader._upload(Target("t", "buffer", 0, matrix), "float32", elements)
    assert len(calls) == piece + 1
    assert all(values[-1] == loader._not_finite.ctypes.data for values in calls)
    elements[at] = 1.0
    calls.clear()
    with pytest.raises(EngineError, match="t: the device read what is not finite"):
        loader._upload(Target("t", "buffer", 0, matrix), "float32", elements)


# Weights as they load, on a device


@pytest.fixture(scope="module", params=["bf16", "int8", "int4"])
def loaded(request):
    from vla_edge_ros.config import ActionConfig, CacheConfig, EngineConfig, VlaConfig
    from vla_edge_ros.engines.cuda.engine import CudaEngine
    from vla_edge_ros.model.decoder_config import DecoderConfig

    decoder = DecoderConfig(
        hidden_size=192,
        intermediate_size=203,
        num_hidden_layers=2,
        num_attention_heads=3,
        num_key_value_heads=1,
        head_dim=64,
        vocab_size=301,
        tie_word_embeddings=False,
    )
    config = VlaConfig(
        frame=FrameConfig(width=32, height=32),
        cache=CacheConfig(capacity_slots=1024),
        action=ActionConfig(bins=37),
        engine=EngineConfig(weights=request.param),
    )
    engine = CudaEngine(config, RandomWeights(decoder, 7))
    engine.load()
    yield engine
    engine.close()


NOT_FINITE_AT = {
    EMBEDDING: (2, 3),
    "lm_head.weight": (300, 191),
    layer_prefix(1) + "self_attn.k_proj.weight": (63, 0),
    layer_prefix(0) + "mlp.down_proj.weight": (191, 202),
    layer_prefix(1) + "mlp.up_proj.weight": (202, 128),
    layer_prefix(0) + "self_attn.q_proj.bias": (191,),
    FINAL_NORM: (9,),
}


@pytest.mark.gpu
@pytest.mark.parametrize("type_name", TYPES)
def test_a_stored_weight_that_is_not_finite_is_refused_by_name_and_place(loaded, type_name):
    """In every format that is kept, of every type that is stored; the same weights without it are taken."""

    def load(weights):
        loader = WeightLoader(loaded.buffers, loaded.kernels["loading"], weights, loaded.stream.ptr)
        loader.load(loaded.sizes, FrameConfig(width=32, height=32), 0, lambda *_: None)

    decoder = loaded.sizes.decoder
    load(InMemory(decoder, type_name))
    values = [np.nan, np.inf, -np.inf, *([3.4e38, -3.4e38] if type_name == "float32" else [])]
    for name, at in NOT_FINITE_AT.items():
        for value in values:
            weights = InMemory(decoder, type_name)
            weights.make_not_finite(name, at, value)
            with pytest.raises(WeightsError) as caught:
                load(weights)
            assert str(caught.value).startswith(f"{name}: "), value
            assert f" at {list(at)} of the stored {type_name} tensor" in str(caught.value), value
    load(InMemory(decoder, type_name))


@pytest.mark.gpu
def test_a_vision_projection_that_is_not_finite_is_refused(loaded):
    weights = InMemory(loaded.sizes.decoder, "float32")
    projection = np.zeros((192, 16 * 16 * 3), np.float32)
    projection[4, 5] = np.nan
    weights.tensors[PATCH_PROJECTION] = projection
    loader = WeightLoader(loaded.buffers, loaded.kernels["loading"], weights, loaded.stream.ptr)
    with pytest.raises(WeightsError, match=rf"{PATCH_PROJECTION}: .*got nan at \[4, 5\]"):
        loader.load(loaded.sizes, FrameConfig(width=32, height=32), 0, lambda *_: None)


# Logits, on a device


def frame_of(rng, case):
    return rng.integers(0, 256, (case.config.frame.height, case.config.frame.width, 3), np.uint8)


def view_of(case, pages):
    return CacheView(np.array(pages, np.int32), np.full(len(pages), case.config.frame.tokens, np.int32), 0)


def never_stop(_):
    return False


class HeadRow:
    """One row of the head on the device: ``make_not_finite`` changes its logit, ``restore`` undoes it."""

    def __init__(self, engine, row):
        sizes = engine.sizes
        tensor = EMBEDDING if head_is_embedding(sizes) else head_name(sizes.decoder)
        buffer = "embedding" if head_is_embedding(sizes) else "head"
        (target,) = (each for each in targets(sizes) if (each.tensor, each.buffer) == (tensor, buffer))
        in_row, tile = row % TILE_ROWS, row // TILE_ROWS
        if target.weights is INT8:  # the row's scale: a factor of its sum
            scale = tile * TILE_ROWS + in_row % 8 * 2 + in_row // 8
            at, self._dtype = target.weights.tiles_bytes(*target.matrix) + 4 * scale, np.float32
        else:  # its first element: register in_row / 8 of lane in_row % 8 * 4
            assert target.weights is BF16
            first_tile = tile * target.weights.k_tiles(target.matrix[1]) * TILE_BYTES
            at, self._dtype = first_tile + in_row % 8 * 4 * 16 + in_row // 8 * 4, np.uint16
        size = np.dtype(self._dtype).itemsize
        whole = engine.buffers.array(buffer, np.uint8, (engine.buffers.parts[buffer],))
        self._part = whole[target.offset + at : target.offset + at + size].view(self._dtype)
        self._kept = self._part.get()

    def make_not_finite(self, value):
        bits = {np.inf: 0x7F80, -np.inf: 0xFF80}.get(value, 0x7FC0)
        self._set(np.array([value if self._dtype is np.float32 else bits], self._dtype))

    def restore(self):
        self._set(self._kept)

    def _set(self, values):
        import cupy

        self._part.set(values)
        cupy.cuda.runtime.deviceSynchronize()  # the engine's stream does not wait for the default one


@pytest.fixture
def chunk(engine, case, rng):
    """A frame, its view, its action's tokens, and a head row that is none of them, restored in the end."""
    pixels, view = frame_of(rng, case), view_of(case, [6, 2, 5])
    engine.embed_frame(pixels)
    engine.prefill(view)
    tokens = engine.decode(view, ACTION_TOKENS, never_stop).tokens
    chosen = {token - engine.sizes.head_first for token in tokens}
    row = HeadRow(engine, max(row for row in range(engine.sizes.head_rows) if row not in chosen))
    yield SimpleNamespace(pixels=pixels, view=view, tokens=tokens, row=row)
    row.restore()
    if "persistent" in engine.steps.kinds:
        engine.steps.use("persistent", ahead=False)


def begin(engine, chunk, draft=()):
    engine.embed_frame(chunk.pixels)
    engine.prefill(chunk.view, draft)


def assert_whole_again(engine, chunk, draft=()):
    chunk.row.restore()
    begin(engine, chunk, draft)
    assert engine.decode(chunk.view, ACTION_TOKENS, never_stop).tokens == chunk.tokens


@pytest.mark.gpu
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_bad_logit_fails_the_prefill_and_the_next_chunk_is_whole(engine, case, chunk, value):
    from vla_edge_ros.bench.kernels import inspection

    chunk.row.make_not_finite(value)
    with pytest.raises(EngineError, match="expected finite logits, got NaN or infinity from the prefill"):
        begin(engine, chunk)
    assert np.count_nonzero(~np.isfinite(inspection.logits(engine))) == 1, "expected one such logit"
    assert np.isfinite(inspection.hidden(engine, "prefill")[: case.config.frame.tokens]).all()
    assert_whole_again(engine, chunk)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["kernels", "persistent", "persistent, queued"])
def test_one_bad_logit_fails_each_decode_step(engine, chunk, kind):
    name, queued = kind.split(",")[0], "queued" in kind
    if name not in engine.steps.kinds:
        pytest.skip("a step of these sizes is not one kernel on this device")
    engine.steps.use(name, ahead=queued)
    for value in (np.nan, np.inf, -np.inf):
        for step in (0,) if queued else (0, 3, 6):
            begin(engine, chunk)

            def make_not_finite_before(step_ms, step=step, value=value):
                if len(step_ms) == step:
                    chunk.row.make_not_finite(value)
                return False

            with pytest.raises(EngineError, match=f"expected finite logits, .* decode step {step + 1}$"):
                engine.decode(chunk.view, ACTION_TOKENS, make_not_finite_before)
            assert_whole_again(engine, chunk)


@pytest.mark.gpu
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_bad_logit_fails_the_pass_that_verifies_a_draft(engine, chunk, value):
    """A pass that says so is followed by one without a draft, which tells whose fault it was: the chunk's."""
    chunk.row.make_not_finite(value)
    with pytest.raises(EngineError, match="expected finite logits, .* the prefill"):
        begin(engine, chunk, chunk.tokens)
    engine._prefill._drafted.run()  # the same pass once more, by itself
    assert engine.host.status[0] != 0
    chunk.row.restore()
    engine._prefill._drafted.run()
    assert engine.host.status[0] == 0

    first = engine.sizes.head_first
    # So that a verification pass follows.
    rejected = [first + (chunk.tokens[0] - first + 1) % 2, *chunk.tokens[1:]]
    begin(engine, chunk, rejected)
    assert engine.host.status[0] == 0
    chunk.row.make_not_finite(value)
    with pytest.raises(EngineError, match="expected finite logits, .* decode step 1$"):
        engine.decode(chunk.view, ACTION_TOKENS, never_stop)
    assert engine.host.status[0] != 0, "expected the verification pass to have said so, before the plain step"
    assert_whole_again(engine, chunk, rejected)


@pytest.mark.gpu
def test_rows_that_fill_up_a_tile_may_hold_anything(engine, case, chunk):
    """They are embedded from what an earlier draft left: NaN there is nobody's fault."""
    if engine.sizes.embedding.bits != 16 or engine.sizes.head_first < TILE_ROWS:
        pytest.skip("needs bfloat16 embeddings, and a row tile of tokens that are no action tokens")
    poisoned = engine.buffers.array("embedding", np.uint16, (TILE_ROWS * case.decoder.hidden_size,))
    kept = poisoned.get()
    poisoned.fill(0x7FC0)  # NaN
    try:
        engine.host.draft_ids[:] = 1
        begin(engine, chunk, chunk.tokens[:3])
        assert engine.host.status[0] == 0, "expected the drafted pass to be finite"
        assert engine.decode(chunk.view, ACTION_TOKENS, never_stop).tokens == chunk.tokens
    finally:
        poisoned.set(kept)


# A GPU that is lost


LOSING = """
import cupy, numpy as np
from vla_edge_ros.config import CacheConfig, VlaConfig
from vla_edge_ros.engines.cuda.engine import CudaEngine
from vla_edge_ros.errors import EngineLostError
from vla_edge_ros.model.decoder_config import DecoderConfig
from vla_edge_ros.model.random_weights import RandomWeights

decoder = DecoderConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=1,
                        num_key_value_heads=1, head_dim=64, vocab_size=400)
config = VlaConfig(cache=CacheConfig(capacity_slots=768))
engine = CudaEngine(config, RandomWeights(decoder, 0))
engine.load()
engine.write_prompt(np.arange(3), [0])
wild = cupy.RawKernel('extern "C" __global__ void wild(int* at) { *at = 1; }', "wild")
with engine.stream:
    wild((1,), (1,), (np.uint64(1 << 60),))
for _ in range(3):
    try:
        engine.write_prompt(np.arange(3), [0])
    except EngineLostError as error:
        print("lost:", error)
engine.close()
try:
    CudaEngine(config, RandomWeights(decoder, 0)).load()
except EngineLostError as error:
    print("anew:", error)
print("closed")
"""


@pytest.mark.gpu
def test_a_kernel_that_writes_where_nothing_is_loses_the_gpu_and_says_to_restart():
    """In a process of its own: no later call of it can use the device."""
    ran = subprocess.run(
        [sys.executable, "-c", LOSING], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    lines = ran.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == ["lost", "lost", "lost", "anew", "closed"], ran.stderr
    assert len(set(lines[:3])) == 1 and "restart the process" in lines[0]


@pytest.mark.gpu
def test_a_prompt_that_fails_by_a_call_of_the_device_can_be_written_again(engine, chunk, monkeypatch):
    """By what CuPy raises, in the middle of it: the one before comes back to the bit."""
    from cupy.cuda.runtime import CUDARuntimeError

    from vla_edge_ros.bench.kernels import inspection

    ids = np.arange(engine.sizes.page_slots)
    engine.write_prompt(ids, [1])
    before = inspection.kept_bytes(engine, 1)
    run = engine._prefill._plain.run
    with monkeypatch.context() as broken:
        failing = SimpleNamespace(run=lambda: run() and raise_out_of_resources())
        broken.setattr(engine._prefill, "_plain", failing)

        def raise_out_of_resources():
            raise CUDARuntimeError(701)

        with pytest.raises(EngineError, match="CUDARuntimeError: cudaErrorLaunchOutOfResources"):
            engine.write_prompt(ids[::-1], [1])
    engine.write_prompt(ids, [1])
    assert inspection.kept_bytes(engine, 1) == before
    assert_whole_again(engine, chunk)
