# SPDX-License-Identifier: Apache-2.0
"""BLAS threads are limited for small decoders only, and given back."""

import sys

import pytest

from vla_edge_ros.config import EngineConfig, ModelSource, VlaConfig
from vla_edge_ros.engines.load import load_engine
from vla_edge_ros.engines.numpy_threads import limit_blas_threads
from vla_edge_ros.model.decoder_config import QWEN2_5_CODER_1_5B, TINY

threadpoolctl = pytest.importorskip("threadpoolctl")


def blas_threads():
    """Thread counts of the BLAS libraries in this process; OpenCV brings another one than NumPy."""
    return {pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture
def two_threads():
    with threadpoolctl.threadpool_limits(limits=2, user_api="blas"):
        if blas_threads() != {2}:
            pytest.skip(f"needs a BLAS with two threads, found {blas_threads()}")
        yield


def test_loaded_tiny_engine_runs_on_one_thread_and_close_gives_the_others_back(two_threads):
    engine = load_engine(VlaConfig(model=ModelSource(preset="tiny"), engine=EngineConfig(name="numpy")))
    engine.load()
    assert blas_threads() == {1}
    engine.close()
    assert blas_threads() == {2}


def test_large_decoder_keeps_all_threads(two_threads):
    limit_blas_threads(QWEN2_5_CODER_1_5B)()
    assert blas_threads() == {2}


def test_without_the_library_nothing_is_limited(two_threads, monkeypatch):
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    limit_blas_threads(TINY)()
    assert blas_threads() == {2}
