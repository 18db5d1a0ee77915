# SPDX-License-Identifier: Apache-2.0
"""Warm-up measures whole chunks at several fills and stays within its time on a slow engine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vla_edge_ros.config import EngineConfig
from vla_edge_ros.engines.base import Decoded
from vla_edge_ros.model.decoder_config import TINY
from vla_edge_ros.model.memory_traffic import bytes_a_chunk
from vla_edge_ros.runtime import warm_up
from vla_edge_ros.types import ChunkTimes


def test_measures_empty_half_and_full_cache_after_an_unmeasured_first_chunk(rig, tiny_config):
    samples = warm_up.measure_chunks(tiny_config, rig.engine)
    frame_pages = tiny_config.cache.pages - 1
    fills = [kept * 32 for kept in (1, frame_pages // 2, frame_pages)]
    assert [sample.slots_in_use for sample in samples] == [fill for fill in fills for _ in range(8)]
    assert all(sample.completed and len(sample.decode_ms) == 7 for sample in samples)
    assert rig.engine.calls.count("prefill") == 3 * (1 + 8) + 1  # one asks whether it uses drafts


def test_full_cache_uses_every_page_once(rig, tiny_config):
    warm_up.measure_chunks(tiny_config, rig.engine)
    view = rig.engine.views[-1]
    assert sorted([view.action_page, *view.pages.tolist()]) == list(range(tiny_config.cache.pages))


@pytest.fixture
def drafting_engine(rig):
    """Takes no step where all guesses are right, and half as long again for one where they are not."""

    class DraftingEngine(type(rig.engine)):
        def decode(self, view, count, should_stop) -> Decoded:
            draft = self.drafts[-1]
            if draft == tuple(range(count)):
                return Decoded(draft, (), False)
            decoded = super().decode(view, count, should_stop)
            factor = 1.5 if draft else 1.0
            return Decoded(decoded.tokens, tuple(factor * ms for ms in decoded.step_ms), decoded.stopped)

    return DraftingEngine(rig.clock)


def test_an_engine_that_uses_drafts_is_measured_with_wrong_ones_too(drafting_engine, tiny_config):
    samples = warm_up.measure_chunks(tiny_config, drafting_engine)
    plain, drafted = ([s for s in samples if s.drafted is kind] for kind in (False, True))
    assert len(plain) == len(drafted) == 3 * 8
    assert {s.decode_ms for s in plain} == {(1.0,) * 7} and {s.decode_ms for s in drafted} == {(1.5,) * 7}


def test_without_drafts_in_the_configuration_none_is_tried(drafting_engine, tiny_config):
    samples = warm_up.measure_chunks(replace(tiny_config, engine=EngineConfig(draft="none")), drafting_engine)
    assert len(samples) == 3 * 8 and set(drafting_engine.drafts) == {()}


def test_the_start_up_warning_is_about_chunks_without_a_draft(tiny_config):
    plain = [ChunkTimes(480, prefill_ms=30.0, completed=True)]
    dear = [ChunkTimes(480, prefill_ms=40.0, completed=True, drafted=True)] * 3
    assert warm_up.over_budget(tiny_config, plain + dear) == ""


def test_a_slow_engine_is_measured_once_a_fill(rig, tiny_config, monkeypatch):
    monkeypatch.setattr(warm_up, "SECONDS_A_FILL", -1.0)
    assert len(warm_up.measure_chunks(tiny_config, rig.engine)) == 3


def test_engine_that_fails_in_warm_up_says_so(rig, tiny_config):
    rig.engine.fail_at = "prefill"
    with pytest.raises(Exception, match="told to fail at prefill"):
        warm_up.measure_chunks(tiny_config, rig.engine)


def test_a_device_that_cannot_keep_the_deadline_is_named_at_start_up(tiny_config):
    """Fault A24: judged by the full cache, by its median chunk."""

    def measured(fill: int, *totals_ms: float) -> list[ChunkTimes]:
        return [ChunkTimes(fill, prefill_ms=ms, completed=True) for ms in totals_ms]

    fits = measured(32, 900.0, 900.0, 900.0) + measured(480, 31.0, 20.0, 700.0)
    assert warm_up.over_budget(tiny_config, fits) == ""
    warning = warm_up.over_budget(tiny_config, measured(32, 1.0) + measured(480, 31.1, 20.0, 700.0))
    assert "a chunk takes 31.1 ms" in warning and "31.0 ms are there" in warning
    gigabytes = bytes_a_chunk(TINY, tiny_config) / 1e9
    assert f"{gigabytes:.2f} GB" in warning and f"{1000 * gigabytes / 31:.0f} GB/s" in warning
