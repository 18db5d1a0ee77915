# SPDX-License-Identifier: Apache-2.0
"""The start-up table, and what an engine of the default sizes needs."""

from __future__ import annotations

import pytest

pytest.importorskip("cupy")

from vla_edge_ros.config import EngineConfig, VlaConfig
from vla_edge_ros.engines.cuda.load import memory as module
from vla_edge_ros.engines.cuda.load.memory import MB, DeviceMemory, PeakSampler, memory_table
from vla_edge_ros.engines.cuda.plan.buffers import scratch_needs
from vla_edge_ros.engines.cuda.plan.device_sizes import Device
from vla_edge_ros.engines.cuda.plan.planner import plan
from vla_edge_ros.engines.cuda.plan.weight_buffers import PIECE_BYTES, weight_needs
from vla_edge_ros.errors import EngineError
from vla_edge_ros.model.decoder_config import QWEN2_5_CODER_1_5B

H200 = Device("H200", 90, 132, 232448, 233472)


@pytest.fixture
def needs():
    sizes = plan(QWEN2_5_CODER_1_5B, VlaConfig(), H200)
    return {**weight_needs(sizes), **scratch_needs(sizes)}


def test_the_table_lists_the_largest_first_and_the_total(needs):
    lines = memory_table(needs, 8192 * MB).splitlines()
    sizes = [float(line.split()[1]) for line in lines]
    assert sizes[:-1] == sorted(sizes[:-1], reverse=True)
    assert lines[0].split()[0] == "gate_up" and lines[-1].split()[0] == "total"
    assert sizes[-1] == pytest.approx(sum(needs.values()) / MB, abs=0.1)


def test_the_full_size_fits_a_small_board_with_room(needs):
    assert sum(needs.values()) + PIECE_BYTES < 4000 * MB


def test_weights_are_two_bytes_each_and_nothing_is_kept_twice(needs):
    decoder = QWEN2_5_CODER_1_5B
    matrices = decoder.num_hidden_layers * (
        decoder.hidden_size * (2 * decoder.q_size + 2 * decoder.kv_size + 3 * decoder.intermediate_size)
    )
    kept = sum(needs[name] for name in ("qkv", "output", "gate_up", "down"))
    assert kept == 2 * matrices
    assert needs["embedding"] == 2 * decoder.vocab_size * decoder.hidden_size
    assert needs["head"] == 2 * 256 * decoder.hidden_size


@pytest.mark.parametrize(("weights", "bits"), [("int8", 8), ("int4", 4.125)])
def test_integers_take_their_bits_and_their_scales(weights, bits, needs):
    """int8 has a float32 a row beside them, int4 a bfloat16 for 128; embedding and head are int8 in both."""
    got = weight_needs(plan(QWEN2_5_CODER_1_5B, VlaConfig(engine=EngineConfig(weights=weights)), H200))
    for name in ("qkv", "output", "gate_up", "down"):
        assert got[name] == pytest.approx(needs[name] * bits / 16, rel=0.003)
    for name in ("embedding", "head"):
        assert got[name] == pytest.approx(needs[name] / 2, rel=0.003)
    for name in ("norms", "qkv_bias", "patch_projection"):
        assert got[name] == needs[name]


def test_int8_keys_and_values_take_nine_bytes_for_sixteen(needs):
    got = scratch_needs(plan(QWEN2_5_CODER_1_5B, VlaConfig(engine=EngineConfig(kv="int8")), H200))
    assert got["kv_cache"] * 16 == needs["kv_cache"] * 9
    assert {name: got[name] for name in got if name != "kv_cache"} == {
        name: needs[name] for name in got if name != "kv_cache"
    }


def test_over_the_ceiling_no_device_is_asked_and_the_error_is_the_table(needs):
    with pytest.raises(EngineError, match=r"(?s)vram_ceiling_mb is 3000.*gate_up.*piece \(loading\).*total"):
        DeviceMemory(needs, 3000 * MB, {"piece": PIECE_BYTES})


@pytest.fixture
def driver(monkeypatch):
    """A stand-in that answers with the last entry."""
    answers = [0]
    monkeypatch.setattr(module.cupy.cuda.runtime, "getDevice", lambda: 0)
    monkeypatch.setattr(module.cupy.cuda.runtime, "setDevice", lambda device: None)
    monkeypatch.setattr(module, "used_bytes", lambda: answers[-1])
    monkeypatch.setattr(module, "SAMPLE_PERIOD_S", 0.001)
    return answers


def test_a_peak_between_two_questions_is_sampled(driver, wait_until):
    sampler = PeakSampler()
    driver.append(7)
    wait_until(lambda: sampler._peak_bytes == 7)
    driver.append(3)
    sampler.close()
    assert sampler.peak_bytes() == 7


def test_a_closed_sampler_has_no_thread_and_still_takes_a_reading_when_asked(driver):
    sampler = PeakSampler()
    sampler.close()
    sampler.close()
    assert not sampler._thread.is_alive()
    driver.append(9)
    assert sampler.peak_bytes() == 9
