# SPDX-License-Identifier: Apache-2.0
"""Slot accounting: invariants under any history, rollback to the identical state, sizes that cannot work."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vla_edge_ros.config import CacheConfig, PromptConfig, VlaConfig
from vla_edge_ros.errors import ConfigError
from vla_edge_ros.kv_cache.cache import KvCache
from vla_edge_ros.kv_cache.eviction import make_policy
from vla_edge_ros.sequence import SequenceLayout

POLICIES = ("fifo", "sliding_window", "semantic", "bridge", "reservoir", "time_thinning")


def layout(frame_tokens=32, prompt_pages=2, suffix_tokens=0, most_frames=None) -> SequenceLayout:
    return SequenceLayout(
        page_slots=32,
        prompt_pages=prompt_pages,
        frame_tokens=frame_tokens,
        suffix_tokens=suffix_tokens,
        action_tokens=8,
        most_frames=most_frames,
    )


LAYOUTS = {
    "a page a frame": layout(),
    "half a page a frame": layout(frame_tokens=16),
    "two pages a frame, the second partly filled": layout(frame_tokens=48),
    "eight pages a frame, nothing remembered": layout(
        frame_tokens=256, prompt_pages=1, suffix_tokens=40, most_frames=0
    ),
    "a suffix of two pages": layout(suffix_tokens=64),
    "five frames at most": layout(most_frames=5),
}


def cache(pages=14, eviction="fifo", prompt_tokens=40, of=None, **options) -> KvCache:
    config = CacheConfig(capacity_slots=pages * 32, eviction=eviction, protect_latest=2, **options)
    made = KvCache(config, make_policy(config), of or layout(), descriptor_size=4)
    made.set_prompt(prompt_tokens)
    return made


def descriptor(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=4).astype(np.float32)


def insert(kv: KvCache, sequence: int):
    with kv.begin(sequence, sequence * 1000) as chunk:
        return chunk, chunk.commit(descriptor(sequence))


def test_4096_slots_keep_124_frames_beside_two_prompt_pages():
    config = CacheConfig(eviction="fifo")
    assert KvCache(config, make_policy(config), layout()).room == 128 - 2 - 1 - 1


@settings(max_examples=120, deadline=None)
@given(
    name=st.sampled_from(sorted(LAYOUTS)),
    eviction=st.sampled_from(POLICIES),
    prompt=st.integers(0, 32),
    history=st.lists(st.sampled_from(["commit", "rollback", "error", "flush", "prompt"]), max_size=60),
)
def test_every_page_has_one_holder_under_any_history(name, eviction, prompt, history):
    pages, of = 15, LAYOUTS[name]
    kv = cache(pages, eviction=eviction, prompt_tokens=prompt, of=of)
    sequence = 0
    for event in history:
        before = kv.state()
        if event == "flush":
            kv.flush()
        elif event == "prompt":
            kv.set_prompt(sequence % 33)
        elif event == "commit":
            sequence += 1
            insert(kv, sequence)
        else:
            try:
                with kv.begin(sequence + 1, 0):
                    if event == "error":
                        raise RuntimeError("in the middle of a chunk")
            except RuntimeError:
                pass
            assert kv.state() == before
        view = kv.view(kv.incoming_block)
        held = [*range(of.prompt_pages), view.action_page, *view.suffix_pages]
        held += kv.pages_of(kv.memory.blocks).tolist() + kv.pages_of(kv._free).tolist()
        assert len(set(held)) == len(held) and set(held) <= set(range(pages))  # each page once
        assert kv._free and len(kv.memory) <= kv.room
        assert np.all(np.diff(kv.memory.sequences) > 0)
        assert view.slots_in_use == kv.slots_next <= pages * 32
        assert (len(view.frame_pages), view.fills[-len(view.frame_pages) :].sum()) == (
            of.frame_pages,
            of.frame_tokens,
        )
        assert not set(view.frame_pages) & {*view.past[0].tolist(), view.action_page, *view.suffix_pages}


def test_a_frame_that_is_not_remembered_leaves_the_cache_as_it_was():
    kv = cache(of=LAYOUTS["eight pages a frame, nothing remembered"], prompt_tokens=1)
    before = kv.state()
    chunk, evicted = insert(kv, 1)
    assert kv.state() == before and evicted is None and kv.room == 0
    assert chunk.view.fills.tolist() == [1] + [32] * 8


@pytest.mark.parametrize("eviction", POLICIES)
def test_rollback_when_full_keeps_every_frame_and_its_page(eviction):
    kv = cache(eviction=eviction)
    for sequence in range(1, 40):
        insert(kv, sequence)
    before = kv.state()
    with kv.begin(40, 40_000) as chunk:
        assert chunk.block not in kv.memory.blocks
    assert kv.state() == before


def test_commit_that_is_refused_rolls_back():
    kv = cache(eviction="semantic")
    insert(kv, 1)
    before = kv.state()
    with pytest.raises(ValueError, match="finite"), kv.begin(2, 0) as chunk:
        chunk.commit(np.full(4, np.nan, np.float32))
    assert kv.state() == before


def test_full_cache_evicts_exactly_one_frame_a_commit():
    kv = cache()
    evicted = [insert(kv, sequence)[1] for sequence in range(1, 31)]
    assert evicted == [None] * kv.room + list(range(1, 31 - kv.room))


def test_view_is_in_time_order_with_the_last_prompt_page_partly_filled():
    kv = cache(prompt_tokens=40)
    for sequence in range(1, 20):
        insert(kv, sequence)
    view = kv.view(kv.incoming_block)
    assert view.pages[:2].tolist() == [0, 1] and view.fills[:2].tolist() == [32, 8]
    assert view.pages[2:-1].tolist() == kv.pages_of(kv.memory.blocks).tolist()
    assert view.pages.dtype == view.fills.dtype == np.int32


def test_two_chunks_at_once_are_a_broken_invariant():
    kv = cache()
    with kv.begin(1, 0), pytest.raises(AssertionError):
        kv.begin(2, 0)


@pytest.mark.parametrize("tokens", [65, 10_000])
def test_prompt_that_does_not_fit_is_refused_with_the_numbers(tokens):
    with pytest.raises(ConfigError, match=f"0 to 64 pinned tokens, got {tokens}"):
        cache(prompt_tokens=tokens)


def test_impossible_sizes_are_refused_with_the_arithmetic():
    """Fault A40."""
    with pytest.raises(
        ConfigError, match=r"2 prompt \+ 0 instruction .* 1 action \+ 10 frames of 1 = 13 pages of 32"
    ):
        VlaConfig(cache=CacheConfig(capacity_slots=12 * 32), prompt=PromptConfig(max_pages=2))
    VlaConfig(cache=CacheConfig(capacity_slots=13 * 32), prompt=PromptConfig(max_pages=2))
    config = CacheConfig(capacity_slots=4 * 32)
    with pytest.raises(
        ConfigError, match="4 pages of 32 slots less 4 for a chunk leave 0 frames of 32 tokens"
    ):
        KvCache(config, make_policy(config), layout())


def test_embedding_too_large_to_compare_exactly_is_refused_by_the_policy_s_name():
    config = CacheConfig(eviction="semantic")
    with pytest.raises(ConfigError, match="cache.eviction semantic .* at most 4096 values, got 8192"):
        KvCache(config, make_policy(config), layout(), descriptor_size=8192)


def test_flush_gives_every_page_back_and_begins_the_count_anew():
    """Otherwise a reservoir would weigh the new frames against those it no longer holds."""
    kv = cache(eviction="reservoir")
    for sequence in range(1, 40):
        insert(kv, sequence)
    kv.flush()
    assert (len(kv.memory), kv.memory.seen, kv.prompt_tokens) == (0, 0, 40)
    assert kv.pages_of(sorted(kv._free)).tolist() == list(range(3, 14))
    insert(kv, 40)
    assert kv.memory.sequences.tolist() == [40]
