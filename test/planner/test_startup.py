# SPDX-License-Identifier: Apache-2.0
"""What an engine says as it loads: only what no kernel could mend, only on a GPU that is known."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from vla_edge_ros.config import EngineConfig, TimingConfig, VlaConfig
from vla_edge_ros.engines.cuda.plan.planner import plan
from vla_edge_ros.errors import EngineError
from vla_edge_ros.model.decoder_config import QWEN2_5_CODER_1_5B
from vla_edge_ros.planner.boards import boards, find_board
from vla_edge_ros.planner.startup import below_floor

DEFAULT = VlaConfig()


def said(key: str, config: VlaConfig = DEFAULT, **changed) -> str:
    board = boards()[key]
    device = replace(board.device, **{"name": board.device_names[0], **changed})
    return below_floor(plan(QWEN2_5_CODER_1_5B, config, device), config)


def at(period_ms: float, weights: str = "bf16") -> VlaConfig:
    timing = TimingConfig(period_ms=period_ms, deadline_ms=period_ms)
    return VlaConfig(timing=timing, engine=EngineConfig(weights=weights))


def test_a_period_below_the_floor_is_warned_of_in_the_planner_s_words():
    warning = said("agx-orin-64gb")
    assert "31.5 ms are there for it" in warning and "it takes 107.0 ms or more" in warning
    assert "Does not fit into 33 ms: a chunk reads 21.92 GB" in warning and "\n" not in warning


def test_by_the_floor_and_not_by_what_is_expected():
    """107.0 ms of bytes and 1.5 ms of margins before an abort: above that the warm-up measures."""
    assert said("agx-orin-64gb", at(108.4)) and said("agx-orin-64gb", at(108.7)) == ""


def test_a_gpu_that_keeps_the_period_is_silent():
    assert said("h200-sxm") == said("rtx-4090") == said("h200-sxm", at(16.7)) == ""


def test_a_gpu_that_is_not_known_is_silent():
    assert said("agx-orin-64gb", name="NVIDIA RTX 6000 Ada Generation") == ""
    assert said("agx-orin-64gb", multiprocessors=14) == ""  # an AGX Orin 32GB


def test_of_two_modules_of_one_name_the_faster_one_is_believed():
    assert "Jetson Orin NX 16GB" in said("orin-nano-super")


def test_the_engine_warns_before_it_loads_anything(monkeypatch, caplog):
    engine_module = pytest.importorskip("vla_edge_ros.engines.cuda.engine", exc_type=ImportError)
    device = replace(find_board("jetson-thor").device, name="NVIDIA Thor")
    monkeypatch.setattr(engine_module, "current_device", lambda: device)

    def stop(engine):
        raise EngineError("no compiler for this test")

    monkeypatch.setattr(engine_module.CudaEngine, "_compile", stop)
    with caplog.at_level(logging.WARNING), pytest.raises(EngineError, match="no compiler"):
        engine_module.CudaEngine(DEFAULT).load()
    (line,) = (record.getMessage() for record in caplog.records if record.name.endswith("cuda.engine"))
    assert "no chunk without accepted draft tokens can end in time" in line
    caplog.clear()
    with caplog.at_level(logging.WARNING), pytest.raises(EngineError, match="no compiler"):
        engine_module.CudaEngine(at(500.0)).load()
    assert caplog.records == []
