# SPDX-License-Identifier: Apache-2.0
"""Warm-up measures whole chunks at several fills and stays within its time on a slow engine."""

from __future__ import annotations

import pytest

from vla_edge_ros.runtime import warm_up


def test_measures_empty_half_and_full_cache_after_an_unmeasured_first_chunk(rig, tiny_config):
    samples = warm_up.measure_chunks(tiny_config, rig.engine)
    frame_pages = tiny_config.cache.pages - 1
    fills = [kept * 32 for kept in (1, frame_pages // 2, frame_pages)]
    assert [sample.slots_in_use for sample in samples] == [fill for fill in fills for _ in range(8)]
    assert all(sample.completed and len(sample.decode_ms) == 7 for sample in samples)
    assert rig.engine.calls.count("prefill") == 3 * (1 + 8)


def test_full_cache_uses_every_page_once(rig, tiny_config):
    warm_up.measure_chunks(tiny_config, rig.engine)
    view = rig.engine.views[-1]
    assert sorted([view.action_page, *view.pages.tolist()]) == list(range(tiny_config.cache.pages))


def test_a_slow_engine_is_measured_once_a_fill(rig, tiny_config, monkeypatch):
    monkeypatch.setattr(warm_up, "SECONDS_A_FILL", -1.0)
    assert len(warm_up.measure_chunks(tiny_config, rig.engine)) == 3


def test_engine_that_fails_in_warm_up_says_so(rig, tiny_config):
    rig.engine.fail_at = "prefill"
    with pytest.raises(Exception, match="told to fail at prefill"):
        warm_up.measure_chunks(tiny_config, rig.engine)
