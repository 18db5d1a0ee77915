# SPDX-License-Identifier: Apache-2.0
"""An engine lets out ``EngineError`` and nothing else of what its libraries and its machine raise."""

from __future__ import annotations

import numpy as np
import pytest

from vla_edge_ros.config import CacheConfig, EngineConfig, ModelSource, VlaConfig
from vla_edge_ros.engines import numpy_engine
from vla_edge_ros.engines.base import Engine
from vla_edge_ros.engines.failures import METHODS, one_line
from vla_edge_ros.engines.numpy_engine import NumpyEngine
from vla_edge_ros.errors import EngineError, WeightsError
from vla_edge_ros.model.decoder_config import TINY
from vla_edge_ros.model.random_weights import RandomWeights
from vla_edge_ros.types import CacheView

CONFIG = VlaConfig(
    model=ModelSource(preset="tiny"), engine=EngineConfig(name="numpy"), cache=CacheConfig(capacity_slots=512)
)
VIEW = CacheView(np.array([3], np.int32), np.array([32], np.int32), 2)
PROMPT = np.arange(5)
PIXELS = np.zeros((64, 128, 3), np.uint8)
STAGES = ["write_prompt", "embed_frame", "prefill", "decode"]
FAILURES = [
    MemoryError("Unable to allocate 3.00 GiB"),
    FloatingPointError("overflow encountered in matmul"),
    ZeroDivisionError("division by zero"),
    np.linalg.LinAlgError("Singular matrix"),
]


def call(engine, method):
    arguments = {
        "write_prompt": (PROMPT, (0,)),
        "embed_frame": (PIXELS,),
        "prefill": (VIEW,),
        "decode": (VIEW, 8, lambda _: False),
    }
    return getattr(engine, method)(*arguments.get(method, ()))


@pytest.fixture
def engine():
    made = NumpyEngine(CONFIG, RandomWeights(TINY, 0))
    made.load()
    made.write_prompt(PROMPT, (0,))
    yield made
    made.close()


def test_all_methods_of_the_protocol_are_guarded():
    declared = {name for name in vars(Engine) if not name.startswith("_") and callable(getattr(Engine, name))}
    assert set(METHODS) == declared
    for name in METHODS:
        assert getattr(NumpyEngine, name).__wrapped__.__name__ == name


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
@pytest.mark.parametrize("stage", STAGES)
def test_what_the_machine_raises_is_an_engine_error_and_the_next_chunk_is_whole(
    engine, monkeypatch, stage, failure
):
    def chunk():
        return [call(engine, method) for method in STAGES[1:]][-1].tokens

    expected = chunk()
    for method in STAGES[: STAGES.index(stage)]:
        call(engine, method)

    def fail(*_):
        raise failure

    with monkeypatch.context() as broken:
        broken.setattr(numpy_engine.ops, "patch_embed", fail)
        broken.setattr(engine.decoder, "forward", fail)
        with pytest.raises(EngineError) as caught:
            call(engine, stage)
    assert str(caught.value) == f"the numpy engine failed: {type(failure).__name__}: {failure}"
    assert caught.value.__cause__ is failure
    engine.write_prompt(PROMPT, (0,))
    assert chunk() == expected


def test_a_program_that_told_numpy_to_raise_gets_an_engine_error(engine):
    engine._projection[:] = 3e38
    with np.errstate(all="raise"), pytest.raises(EngineError, match="FloatingPointError: overflow"):
        engine.embed_frame(np.full_like(PIXELS, 255))


def test_start_up_without_memory_is_an_engine_error(monkeypatch):
    def fail(*_):
        raise FAILURES[0]

    monkeypatch.setattr(numpy_engine, "NumpyDecoder", fail)
    with pytest.raises(EngineError, match="MemoryError: Unable to allocate"):
        NumpyEngine(CONFIG, RandomWeights(TINY, 0)).load()


def test_what_a_user_can_mend_and_what_is_a_bug_stay_what_they_are(engine, monkeypatch):
    def fail_with(error):
        def fail(*_):
            raise error

        monkeypatch.setattr(numpy_engine.ops, "patch_embed", fail)

    for error in (WeightsError("no such tensor"), AssertionError("an invariant"), EngineError("of its own")):
        fail_with(error)
        with pytest.raises(type(error)) as caught:
            engine.embed_frame(PIXELS)
        assert caught.value is error


def test_an_error_is_told_in_one_line_with_its_class_unless_it_is_ours():
    assert one_line(RuntimeError("a\n  b\n")) == "RuntimeError: a b"
    assert one_line(MemoryError()) == "MemoryError"
    assert one_line(EngineError("a\nb")) == "a b"
