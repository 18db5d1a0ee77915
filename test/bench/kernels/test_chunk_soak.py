# SPDX-License-Identifier: Apache-2.0
"""The soak itself must be able to fail: a token or a bit that changes ends it."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("cupy")

from vla_edge_ros.bench.kernels import chunk_soak


def test_each_kind_of_draft_is_what_its_name_says():
    rng, ids = np.random.default_rng(0), np.arange(100, 120)
    tokens = (100, 101, 102, 103)
    drafts = chunk_soak.drafts_of(rng, tokens, ids)
    assert drafts["none"] == [] and drafts["right"] == list(tokens)
    assert sum(a != b for a, b in zip(drafts["one_wrong"], tokens, strict=True)) <= 1
    assert len(drafts["random"]) == 4 and set(drafts["random"]) <= set(ids.tolist())


@pytest.fixture
def engine(small_engine):
    return small_engine(512)


@pytest.mark.gpu
def test_a_short_soak_compares_tokens_and_caches(engine):
    row = chunk_soak.soak(engine, minutes=0, seed=3, least_chunks=3 * chunk_soak.CHECK_EVERY)
    assert row["chunks"] == 3 * chunk_soak.CHECK_EVERY and row["caches_compared"] == 3
    assert "right 1" in row["draft_and_passes"] and "none 8" in row["draft_and_passes"]


@pytest.mark.gpu
@pytest.mark.parametrize("what", ["tokens", "bits"])
def test_a_change_ends_the_soak(engine, monkeypatch, what):
    calls = []

    def changing_bits(*_):
        calls.append(1)
        return b"other" if len(calls) > chunk_soak.FRAMES else b"first"

    if what == "bits":
        monkeypatch.setattr(chunk_soak, "bits_of", changing_bits)
        text = "the cache's bits differ"
    else:
        decode = engine.decode

        def other_tokens(view, count, should_stop):
            calls.append(1)
            decoded = decode(view, count, should_stop)
            if len(calls) <= chunk_soak.FRAMES:
                return decoded
            return type(decoded)((decoded.tokens[0] + 1, *decoded.tokens[1:]), decoded.step_ms, False)

        monkeypatch.setattr(engine, "decode", other_tokens)
        text = "at first"
    with pytest.raises(AssertionError, match=text):
        chunk_soak.soak(engine, minutes=0, seed=3, least_chunks=3 * chunk_soak.CHECK_EVERY)
