# SPDX-License-Identifier: Apache-2.0
"""Errors of CuPy and the driver, raised without a device: which end a call, and which the use of the GPU."""

from __future__ import annotations

import ctypes
from contextlib import ExitStack

import numpy as np
import pytest

pytest.importorskip("cupy")

from cupy.cuda.memory import OutOfMemoryError
from cupy.cuda.runtime import CUDARuntimeError
from cupy_backends.cuda.libs.nvrtc import NVRTCError

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.engines.cuda import engine as module
from vla_edge_ros.engines.cuda.load import driver
from vla_edge_ros.engines.cuda.load.device_errors import LOST, device_failure
from vla_edge_ros.engines.cuda.run import decode_steps
from vla_edge_ros.engines.failures import METHODS
from vla_edge_ros.errors import EngineError, EngineLostError, KernelCompileError
from vla_edge_ros.types import CacheView

VIEW = CacheView(np.array([3], np.int32), np.array([32], np.int32), 0)
ILLEGAL_ADDRESS, LAUNCH_OUT_OF_RESOURCES = 700, 701


class Stream:
    """Counts who waits for it; ``fails`` is what the waiting then meets."""

    ptr = 1

    def __init__(self):
        self.waited, self.fails = 0, None

    def synchronize(self):
        self.waited += 1
        if self.fails:
            raise self.fails


class Prefill:
    """As far as embedding a frame needs it."""

    def __init__(self):
        self.runs, self.fails = 0, None
        self.pixels, self.pooled = np.zeros((64, 128, 3), np.uint8), np.zeros(8, np.float32)

    def embed_frame(self):
        self.runs += 1
        if self.fails:
            raise self.fails
        return 1.0


@pytest.fixture
def engine():
    """Loaded, as far as embedding a frame needs it."""
    made = module.CudaEngine(VlaConfig())
    made.stream, made._prefill, made._taken = Stream(), Prefill(), ExitStack()
    made._action = made.steps = made.passes = made.kernels = None
    made._view, made._embedded, made.is_loaded = None, False, True
    made._taken.callback(made.stream.synchronize)
    return made


def embed(engine):
    return engine.embed_frame(np.zeros((64, 128, 3), np.uint8))


def test_all_methods_of_the_engine_are_guarded():
    for name in METHODS:
        assert getattr(module.CudaEngine, name).__wrapped__.__name__ == name


@pytest.mark.parametrize("status", LOST)
def test_every_sticky_status_is_lost_in_whatever_way_it_comes(status, monkeypatch):
    assert isinstance(device_failure(CUDARuntimeError(status)), EngineLostError)

    class Driver:
        def cuGetErrorString(self, status, text):
            text._obj.value = b"an error"

    driver._driver.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Driver())
    with pytest.raises(EngineLostError, match="launch of x failed: an error .*restart the process"):
        driver._check(status, "launch of x")
    driver._driver.cache_clear()


@pytest.mark.parametrize(
    "failure",
    [
        CUDARuntimeError(LAUNCH_OUT_OF_RESOURCES),
        CUDARuntimeError(2),
        NVRTCError(5),
        OutOfMemoryError(10, 10),
        MemoryError("host"),
        RuntimeError("CuPy failed to load libnvrtc.so.12"),
    ],
    ids=lambda failure: type(failure).__name__,
)
def test_an_error_of_one_call_is_an_engine_error_and_the_next_call_works(engine, failure):
    engine._prefill.fails = failure
    with pytest.raises(EngineError) as caught:
        embed(engine)
    assert not isinstance(caught.value, EngineLostError) and type(failure).__name__ in str(caught.value)
    assert caught.value.__cause__ is failure and "\n" not in str(caught.value)
    assert engine.stream.waited == 1, "expected what is under way to have ended before the next call"
    with pytest.raises(EngineError, match="embed_frame before prefill"):
        engine.prefill(VIEW)
    engine._prefill.fails = None
    assert embed(engine).vision_ms == 1.0 and not engine.lost


def test_our_own_errors_pass_as_they_are():
    for error in (EngineError("of its own"), KernelCompileError("a\nlog"), EngineLostError("gone")):
        assert device_failure(error) is error


def lose(engine):
    engine._prefill.fails = CUDARuntimeError(ILLEGAL_ADDRESS)
    with pytest.raises(EngineLostError) as caught:
        embed(engine)
    return str(caught.value)


def test_a_lost_context_says_what_to_do_and_the_device_is_not_asked_again(engine):
    text = lose(engine)
    assert "cudaErrorIllegalAddress" in text and "restart the process" in text and "\n" not in text
    for call in (
        lambda: embed(engine),
        lambda: engine.write_prompt(np.arange(3), [1]),
        lambda: engine.prefill(VIEW),
        lambda: engine.decode(VIEW, 8, lambda _: False),
        engine.memory,
    ):
        with pytest.raises(EngineLostError) as caught:
            call()
        assert str(caught.value) == text
    assert engine._prefill.runs == 1 and engine.stream.waited == 0


def test_a_lost_engine_is_closed_without_a_word_and_stays_lost(engine, caplog):
    lose(engine)
    engine.close()
    engine.close()
    assert engine.stream.waited == 0 and caplog.text == ""
    with pytest.raises(EngineLostError, match="restart the process"):
        embed(engine)


def test_a_context_that_fails_in_the_next_call_too_is_lost_whatever_its_number(engine):
    """``cudaErrorUnknown`` may be either; a GPU that fell off the bus has others."""
    engine._prefill.fails, engine.stream.fails = CUDARuntimeError(999), CUDARuntimeError(999)
    with pytest.raises(EngineLostError, match="cudaErrorUnknown.*restart the process"):
        embed(engine)
    assert engine.lost


def test_a_context_that_is_found_lost_on_closing_is_logged_and_not_raised(engine, caplog):
    engine.stream.fails = CUDARuntimeError(ILLEGAL_ADDRESS)
    engine.close()
    assert "restart the process" in caplog.text and not engine.is_loaded


def test_decode_steps_do_not_take_a_lost_device_for_a_kernel_that_cannot_run(monkeypatch):
    """At start-up a persistent kernel may fail where graphs work: not by losing the device."""
    steps = object.__new__(decode_steps.DecodeSteps)
    steps.kinds = {"kernels": None, "persistent": None}

    def run_once(self, kind, state):
        if kind == "persistent":
            raise CUDARuntimeError(ILLEGAL_ADDRESS)
        return 1.0

    monkeypatch.setattr(decode_steps.DecodeSteps, "_run_once", run_once)
    with pytest.raises(CUDARuntimeError):
        steps.choose("auto", np.zeros(1))
