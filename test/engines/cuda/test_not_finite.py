# SPDX-License-Identifier: Apache-2.0
"""What is not finite is an error on the device too: logits wherever a token is chosen.

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

from vla_edge_ros.engines.cuda.load.packed_weights import targets
from vla_edge_ros.engines.cuda.plan.weight_buffers import head_is_embedding
from vla_edge_ros.engines.cuda.plan.weight_format import BF16, INT8, TILE_BYTES, TILE_ROWS
from vla_edge_ros.errors import EngineError
from vla_edge_ros.model.tensor_shapes import EMBEDDING, head_name
from vla_edge_ros.types import CacheView

ACTION_TOKENS = 8
ROOT = Path(__file__).resolve().parents[3]


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
