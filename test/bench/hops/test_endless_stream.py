# SPDX-License-Identifier: Apache-2.0
"""Faults A27, A29, A31: nothing grows, drifts or leaks however long the stream.

The benchmark module runs the same checks over a million frames; here they run over some thousands, and are
shown to see the faults that they look for.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vla_edge_ros.bench.hops.endless_stream import RealStream, check_view, keep_books
from vla_edge_ros.config import CacheConfig, EngineConfig, ModelSource, VlaConfig
from vla_edge_ros.engines.load import load_engine
from vla_edge_ros.types import CacheView

TINY = VlaConfig(model=ModelSource(preset="tiny"))
SMALL = replace(TINY, cache=CacheConfig(capacity_slots=512, protect_latest=4))


@pytest.mark.parametrize("eviction", ["fifo", "bridge", "semantic"])
def test_bookkeeping_holds_over_twenty_thousand_frames(eviction):
    config = replace(TINY, cache=CacheConfig(eviction=eviction))
    rows = keep_books(config, 20_000)
    assert rows[-1]["frames"] == 20_000


def test_positions_stay_below_4104():
    config = TINY
    full = CacheView(np.arange(1, 128, dtype=np.int32), np.full(127, 32, np.int32), 0)
    check_view(full, config)
    with pytest.raises(AssertionError):
        check_view(CacheView(np.arange(1, 131, dtype=np.int32), np.full(130, 32, np.int32), 0), config)


def test_kept_keys_and_values_are_untouched_to_the_bit_and_the_answer_is_that_of_a_fresh_engine():
    """After hundreds of evictions: copy what is kept into an engine that never saw an eviction, and compare.

    The copy lies in other pages, in plain order, so that a result which depends on history or place differs.
    """
    stream = RealStream(SMALL)
    for sequence in range(1, 400):
        stream.chunk(sequence, tokens=2)
    stream.check_kept_pages()
    assert stream.evictions == 399 - stream.cache.room

    fresh = load_engine(replace(SMALL, engine=EngineConfig(name="numpy")))
    fresh.load()
    kept = stream.cache.pages_of(stream.cache.memory.blocks).tolist()
    kv, fresh_kv = stream.engine.decoder.kv, fresh.decoder.kv
    fresh_kv[:] = np.nan  # whatever is read beyond the copies shows
    fresh_kv[:, 0] = kv[:, 0]
    action_page = 1
    pages = [0, *range(2, 2 + len(kept) + 1)]
    for copy, page in zip(pages[1:], kept, strict=False):
        fresh_kv[:, copy] = kv[:, page]
    pixels = stream.picture(400)
    fills = [20, *[32] * (len(kept) + 1)]
    view = CacheView(np.array(pages, np.int32), np.array(fills, np.int32), action_page)
    fresh.embed_frame(pixels)
    fresh.prefill(view)
    fresh_hidden = fresh.hidden
    expected = fresh.decode(view, 8, lambda _: False).tokens

    stream.engine.embed_frame(pixels)
    with stream.cache.begin(400, 0) as chunk:
        stream.engine.prefill(chunk.view)
        np.testing.assert_array_equal(stream.engine.hidden, fresh_hidden)
        assert stream.engine.decode(chunk.view, 8, lambda _: False).tokens == expected


def test_the_check_sees_a_kept_page_that_was_overwritten():
    stream = RealStream(SMALL)
    for sequence in range(1, 40):
        stream.chunk(sequence)
    page = int(stream.cache.pages_of(stream.cache.memory.blocks)[3])
    stream.engine.decoder.kv[1, page, 0, 0, 5, 2] += 1e-6
    with pytest.raises(AssertionError):
        stream.check_kept_pages()


@pytest.mark.parametrize("eviction", ["fifo", "bridge", "semantic"])
def test_the_pinned_prompt_is_seen_first_and_untouched_by_evictions(eviction):
    """Fault A39: without its first tokens, which serve as attention sinks, a stream collapses."""
    stream = RealStream(replace(SMALL, cache=replace(SMALL.cache, capacity_slots=384, eviction=eviction)))
    pinned = stream.engine.decoder.kv[:, 0].copy()
    for sequence in range(1, 60):
        view = stream.chunk(sequence, tokens=1)
        assert view.pages[0] == 0 and view.fills[0] == 20
        assert 0 not in view.pages[1:] and view.action_page != 0
    assert stream.evictions > 40
    np.testing.assert_array_equal(stream.engine.decoder.kv[:, 0], pinned)


@pytest.mark.slow
def test_kept_state_survives_ten_thousand_evictions():
    stream = RealStream(replace(SMALL, cache=CacheConfig(capacity_slots=416, protect_latest=4)))
    for sequence in range(1, 10_000 + stream.cache.room + 1):
        check_view(stream.chunk(sequence, tokens=1), stream.config)
    stream.check_kept_pages()
    assert stream.evictions == 10_000
